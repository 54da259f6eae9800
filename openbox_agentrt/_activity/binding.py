"""Being inside an activity: for nested calls of ours, and for the base SDK's instrumentation."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from openbox_core.contracts.context import ActivityContext

from .._run.current import POSITION, Position
from .._run.state import OpenActivity

if TYPE_CHECKING:
    from contextvars import Token

    from .._run.state import RunState
    from .._wire.identity import RunIdentity


log = logging.getLogger(__name__)


class _Bindable(OpenActivity, Protocol):
    """An activity that tasks can stand in."""

    @property
    def run(self) -> RunState: ...

    @property
    def context(self) -> ActivityContext: ...


class Binding:
    """Bind an activity for the length of a ``with`` block, which must not contain a ``yield``."""

    __slots__ = ("_activity", "_context", "_position")

    _context: Token[Any]
    _position: Token[Position | None]

    def __init__(self, activity: _Bindable) -> None:
        self._activity = activity

    def __enter__(self) -> None:
        activity = self._activity
        run = activity.run
        self._position = POSITION.set(Position(run, activity, POSITION.get()))
        self._context = run.services.bind(activity)

    def __exit__(self, *_: object) -> None:
        try:
            self._activity.run.services.store.reset(self._context)
            POSITION.reset(self._position)
        except ValueError:
            # A coroutine that is closed by the garbage collector ends in a context that never saw the
            # binding.
            log.debug("an activity ended outside its own context")


def activity_context(identity: RunIdentity, activity_id: str, activity_type: str) -> ActivityContext:
    """Describe an activity as the base SDK's instrumentation knows it."""
    return ActivityContext(
        workflow_id=identity.workflow_id,
        run_id=identity.run_id,
        workflow_type=identity.workflow_type,
        task_queue=identity.task_queue,
        activity_id=activity_id,
        activity_type=activity_type,
        agent_name=identity.agent_name,
        session_id=identity.session_id,
        multi_agent_session_id=identity.multi_agent_session_id,
    )
