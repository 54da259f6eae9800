"""
Keep what governance refused inside an activity, by way of the base SDK's hooks for nested I/O.

The error that a hook raises can be swallowed by the tool, by a task group, or by
``error_behavior="return_error"``. It is written down here first: on the activity, which looks at it when
the tool is done, and on the run, if it is halted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ..decision import Verdict
from ..errors import GovernanceError, GovernanceHaltError, GovernanceUnavailableError
from .current import POSITION
from .record import Facts, refused

if TYPE_CHECKING:
    from openbox_core.contracts.context import ActivityContext

    from .state import OpenActivity, RunState


NESTED_REQUEST = "nested request"
"""The event of I/O that belongs to no activity."""


class NestedRefusals:
    """Serve as the `HookRecorder` for the runs of one governance."""

    def __init__(self) -> None:
        self._runs: WeakValueDictionary[str, RunState] = WeakValueDictionary()

    def watch(self, run: RunState) -> None:
        """Find `run` by its id, where no ContextVar tells: in threads of a tool's own."""
        self._runs[run.workflow_id] = run

    def refused(self, error: GovernanceError, *, latches: bool, context: ActivityContext | None) -> None:
        """Keep `error`, which is about to be raised inside an activity: see `HookRecorder`."""
        run, activity = self._place(context)
        if run is None:
            return
        if error.decision is None:
            _record(run, error, context)
        if activity is not None and not error.ran:
            activity.note_refusal(error)
        if latches and isinstance(error, GovernanceHaltError):
            run.halt(error, took_effect=not error.ran)

    def cancelled(self, context: ActivityContext | None) -> GovernanceError | None:
        """Say why the activity of `context` may not go on: see `HookRecorder`."""
        run, _ = self._place(context)
        return None if run is None else run.refusal(_event(context))

    def _place(self, context: ActivityContext | None) -> tuple[RunState | None, OpenActivity | None]:
        position = POSITION.get()
        known = None if context is None else context.workflow_id
        while position is not None:
            if known in (None, position.run.workflow_id):
                return position.run, position.activity
            position = position.outer
        run = None if known is None else self._runs.get(known)
        if run is None or context is None:
            return run, None
        return run, run.open_activities.get(context.activity_id or "")


def _event(context: ActivityContext | None) -> str:
    return (None if context is None else context.activity_type) or NESTED_REQUEST


def _record(run: RunState, error: GovernanceError, context: ActivityContext | None) -> None:
    halted = isinstance(error, GovernanceHaltError)
    kind = error.kind if isinstance(error, GovernanceUnavailableError) else None
    facts: Facts = {
        "activity_id": None if context is None else context.activity_id,
        "core_verdict": getattr(error, "verdict", None) or (Verdict.HALT if halted else None),
        "unreachable": kind == "outage",
        "reason": getattr(error, "reason", None) or str(error),
        "policy_id": getattr(error, "policy_id", None),
    }
    verdict = Verdict.HALT if halted else Verdict.BLOCK
    refused(run, error, _event(context), verdict, "core" if kind is None else "unreachable", facts)
