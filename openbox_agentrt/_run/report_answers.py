"""Heed what Core says to a report: a HALT in it is a decision on record, and stops what would start next."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from .._errors.refusals import error_of
from ..decision import Verdict
from ..errors import GovernanceHaltError
from .record import facts_of, refused, write

if TYPE_CHECKING:
    from ..decision import Answer
    from .state import RunState


log = logging.getLogger(__name__)

RUN_STARTED: Final = "run_started"


def note_start_answer(run: RunState, answer: Answer) -> None:
    """
    Take note of what Core answered to the start of `run`.

    The start is a report: a no does not stop it, as a HALT does, but it is on record.
    """
    error = error_of(answer, event=RUN_STARTED)
    if error is None or answer.latches:
        apply_report_answer(run, answer, event=RUN_STARTED)
        return
    log.warning(
        "core says %s to the start of run %s, which is not enforced", answer.verdict.value, run.run_id
    )
    facts = facts_of(answer)
    facts["reason"] = getattr(error, "reason", None) or str(error)
    write(run, RUN_STARTED, Verdict.ALLOW, "core", facts)


def apply_report_answer(run: RunState, answer: Answer, *, event: str, activity_id: str | None = None) -> None:
    """
    Take note of what Core answered to a report about `event`.

    A report is never enforced. But a HALT stops what would start next, and is a decision like any other. What
    Core says after a HALT repeats it, and is ignored.
    """
    if answer.verdict is not Verdict.HALT or not answer.latches or run.halted is not None:
        return
    halt = error_of(answer, event=event)
    assert isinstance(halt, GovernanceHaltError)  # nothing else latches
    facts = facts_of(answer)
    facts["activity_id"] = activity_id
    facts["reason"] = halt.reason
    refused(run, halt, event, answer.verdict, "core", facts)
    run.halt(halt, took_effect=False)
