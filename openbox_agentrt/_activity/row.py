"""
Core's row for one activity: there from the moment Core is asked, and closed once.

Closing is a change of state, made without awaiting, that gives the report to send; so it happens once
however many ways out of the activity are taken at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from agent_rt import ApprovalRequiredError, RunCancelled

from .._wire.error_info import error_info
from ..lifecycle_events import activity_completed

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from .._run.state import RunState
    from ..lifecycle_events import ActivityStatus
    from .request import Case

ABANDONED = "AbandonedActivity"
OUTLIVED_RUN = error_info(type=ABANDONED, message="run ended before the activity completed")
SUPERSEDED = error_info(
    type="ArgumentsChanged", message="the arguments were changed after they were judged, and are judged again"
)


def status_of(error: BaseException) -> ActivityStatus:
    """How a row ends whose work ended with `error`."""
    if isinstance(error, RunCancelled | ApprovalRequiredError) or not isinstance(error, Exception):
        return "cancelled"
    return "failed"


class Row:
    """
    One row.

    Args:
        activity_type: What Core calls the activity.
        reported: Whether Core wants to hear of its end.

    Attributes:
        asked: Whether Core was asked, so that it may have the row.
        closed: Whether the row was closed; nothing changes it any more.
        began: When the work began, on `perf_counter`.
    """

    __slots__ = ("activity_type", "asked", "began", "closed", "reported")

    def __init__(self, activity_type: str, *, reported: bool, began: float | None = None) -> None:
        self.activity_type = activity_type
        self.reported = reported
        self.asked = False
        self.closed = False
        self.began = began

    def anew(self) -> Row:
        """Another row for the same work: a changed input needs one."""
        return Row(self.activity_type, reported=self.reported, began=self.began)

    def close(
        self,
        run: RunState,
        case: Case,
        status: ActivityStatus,
        *,
        ran: bool,
        output: Any = None,
        error: Mapping[str, Any] | None = None,
    ) -> EventEnvelope | None:
        """The report that closes the row; None when it is closed already, never was, or is not wanted."""
        if self.closed:
            return None
        self.closed = True
        row_id = case.activity_id or ""
        run.open_activities.pop(row_id, None)
        run.judge.store.clear_activity_aborted(run.workflow_id, row_id)
        if not self.reported or not (self.asked or (case.envelope is None and ran)):
            return None
        return activity_completed(
            run.identity,
            row_id,
            self.activity_type,
            status=status,
            output=run.redactions.value(output),
            error=error,
            duration_ms=None if self.began is None else (perf_counter() - self.began) * 1000,
            max_bytes=run.judge.options.max_payload_bytes,
        )
