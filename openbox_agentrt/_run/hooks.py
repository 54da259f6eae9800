"""
What governance refused inside an activity, by way of the base SDK's hooks for nested I/O.

The error that a hook raises can be swallowed by the tool, by a task group, or by
``error_behavior="return_error"``. It is written down here first: on the activity, which looks at it when
the tool is done, and on the run, if it is halted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from openbox_core.contracts.results import Verdict

from ..decision import Decision
from ..errors import GovernanceError, GovernanceHaltError
from .state import POSITION, RunState

if TYPE_CHECKING:
    from openbox_core.contracts.context import ActivityContext

    from .._activity.activity import Activity


class Refusals:
    """A `HookRecorder` for the runs of one governance."""

    def __init__(self) -> None:
        self._runs: WeakValueDictionary[str, RunState] = WeakValueDictionary()

    def watch(self, run: RunState) -> None:
        """Find `run` by its id, where no ContextVar tells: in threads of a tool's own."""
        self._runs[run.workflow_id] = run

    def refused(self, error: GovernanceError, *, latches: bool, context: ActivityContext | None) -> None:
        run, activity = self._place(context)
        if run is None:
            return
        if error.decision is None:
            error.decision = _decision(error, run, context)
            run.note(error.decision)
        if activity is not None and not error.ran:
            activity.note_refusal(error)
        if latches and isinstance(error, GovernanceHaltError):
            run.halt(error, took_effect=not error.ran)

    def cancelled(self, context: ActivityContext | None) -> GovernanceError | None:
        run, _ = self._place(context)
        event = None if context is None else context.activity_type
        return None if run is None else run.refusal(event or "nested request")

    def _place(self, context: ActivityContext | None) -> tuple[RunState | None, Activity | None]:
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


def _decision(error: GovernanceError, run: RunState, context: ActivityContext | None) -> Decision:
    halted = isinstance(error, GovernanceHaltError)
    return Decision(
        event=(None if context is None else context.activity_type) or "nested request",
        activity_id=None if context is None else context.activity_id,
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        verdict=Verdict.HALT if halted else Verdict.BLOCK,
        core_verdict=getattr(error, "verdict", None) or (Verdict.HALT if halted else None),
        source="core",
        reason=getattr(error, "reason", None) or str(error),
        policy_id=getattr(error, "policy_id", None),
    )
