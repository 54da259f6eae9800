"""What Core says to a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._errors.refusals import error_of
from ..errors import GovernanceHaltError
from .record import facts_of, refused

if TYPE_CHECKING:
    from ..decision import Answer
    from .state import RunState

__all__ = ("apply_report_answer",)


def apply_report_answer(run: RunState, answer: Answer, *, event: str, activity_id: str | None = None) -> None:
    """
    Take note of what Core answered to a report about `event`.

    A report is never enforced. But a HALT stops what would start next, and is a decision like any other. What
    Core says after a HALT repeats it, and is ignored.
    """
    if not answer.latches or run.halted is not None:
        return
    halt = error_of(answer, event=event)
    assert isinstance(halt, GovernanceHaltError)  # nothing else latches
    facts = facts_of(answer)
    facts["activity_id"] = activity_id
    facts["reason"] = halt.reason
    refused(run, halt, event, answer.verdict, "core", **facts)
    run.halt(halt, took_effect=False)
