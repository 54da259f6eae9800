"""Ask the local contracts whether something may happen, and tell Core what they refuse."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .._errors.refusals import error_of_result
from ..acel.events import ASSISTANT_TEXT
from ..acel.session import engine_of
from ..decision import Verdict
from ..errors import ContractRefusedError
from ..lifecycle_events import contract_violation
from .record import Facts, refused, write
from .report_answers import RUN_STARTED, apply_report_answer

if TYPE_CHECKING:
    from ..acel.reservation import Reservation
    from ..acel.session import Session
    from ..acel.violations import Violation
    from ..decision import DecisionSource
    from ..errors import GovernanceError
    from ..fleet.answers import Lease
    from .state import RunState

log = logging.getLogger(__name__)


def signal_violation(
    run: RunState, event: str, contracts: Sequence[str], reason: str | None, *, enforced: bool = True
) -> None:
    """Let Core know that `event` broke contracts, so that its dashboard shows it. Does not wait."""
    if not run.services.options.asks_core:
        return
    run.reports.post(
        contract_violation(
            run.identity,
            signal_id=str(uuid.uuid4()),
            event=event,
            contracts=contracts,
            reason=reason,
            enforced=enforced,
        ),
        heed=partial(apply_report_answer, run, event=event),
    )


async def reserve(
    run: RunState,
    contracts: Session,
    event: str,
    arguments: Mapping[str, Any] | None,
    facts: Facts,
    *,
    deferred: Collection[str] | Mapping[str, Any] = (),
    started: bool = False,
    lease: Lease | None = None,
) -> Reservation:
    """
    Have the contracts judge `event`. What they allow is in flight from here on.

    Args:
        facts: What is known of the decision; what the contracts said is added.
        started: Whether it happens as soon as they allow it. If not, `start` is asked before it does.
        lease: What is reserved for it in the store of the fleet already.

    Raises:
        ContractRefusedError: They refuse it. Nothing moved, and Core will hear of it by a signal.
    """
    began = perf_counter()
    reservation = await contracts.areserve(
        event, arguments, deferred=deferred, about=run.about, started=started, lease=lease
    )
    facts["acel_seconds"] = perf_counter() - began
    facts["step"] = reservation.step
    if reservation.unanswered:
        facts["fleet"] = "unavailable"
    elif reservation.alone:
        facts["fleet"] = "local"
    elif reservation.lease is not None:
        facts["fleet"] = "local" if reservation.lease.local else "shared"
    if reservation.refusal is not None:
        raise refused_by(run, event, reservation, facts)
    violations = reservation.violations
    facts["acel"] = "shadow" if violations else "allowed"
    facts["contracts"] = tuple(violation.name for violation in violations) if violations else ()
    return reservation


async def judge_again(run: RunState, reservation: Reservation, event: str, facts: Facts) -> None:
    """
    Have the contracts judge `event` again, which has waited and is about to happen.

    Raises:
        ContractRefusedError: They refuse it now. It has not happened, and nothing of it is reserved any more.
    """
    before = len(reservation.violations)
    if not await reservation.arecheck():
        raise refused_by(run, event, reservation, facts)
    if len(reservation.violations) > before:
        facts["acel"] = "shadow"
        facts["contracts"] = tuple(dict.fromkeys(violation.name for violation in reservation.violations))


def refused_by(run: RunState, event: str, reservation: Reservation, facts: Facts) -> GovernanceError:
    """Write down that contracts refuse `event`, let Core know by a signal, and give the error."""
    refusal = reservation.refusal
    assert refusal is not None
    facts["acel"] = "refused"
    if reservation.unanswered:
        facts["fleet"] = "unavailable"
    facts["contracts"] = refusal.contracts
    facts["reason"] = refusal.message
    if refusal.contracts:
        signal_violation(run, event, refusal.contracts, refusal.message)
    # Where the session is, and whether its store answers, is nothing that the call has broken.
    source: DecisionSource = "contracts" if refusal.contracts else "session"
    return refused(run, ContractRefusedError(refusal), event, Verdict.BLOCK, source, facts)


def broken_result(
    run: RunState, event: str, violation: Violation, *, activity_id: str | None = None
) -> ContractRefusedError:
    """Write down that the result of `event` breaks a postcondition, and give the error. The work has run."""
    error = error_of_result(violation)
    facts: Facts = {
        "activity_id": activity_id,
        "acel": "refused",
        "contracts": (violation.name,),
        "reason": error.reason,
    }
    refused(run, error, event, Verdict.BLOCK, "contracts", facts)
    return error


async def admit_run(run: RunState) -> None:
    """
    Have the contracts judge the start of `run`.

    Raises:
        ContractRefusedError: The run may not start.
    """
    if run.contracts is None:
        return
    facts: Facts = {}
    reservation = await reserve(run, run.contracts, RUN_STARTED, about_run(run), facts, started=True)
    if facts["acel"] == "shadow":
        write(run, RUN_STARTED, Verdict.ALLOW, "contracts", facts)
    run.admitted = True
    failed = await reservation.acommit()
    if failed is not None:
        raise broken_result(run, RUN_STARTED, failed)


def hears_text(run: RunState) -> bool:
    """Tell whether a contract of `run` is about what its model says."""
    return run.contracts is not None and engine_of(run.contracts).store.book.names_event(ASSISTANT_TEXT)


async def judge_text(run: RunState, text: str, tools: Sequence[str]) -> None:
    """
    Have the contracts judge what the model of `run` said, if one of them is about that.

    Args:
        tools: The tools that the model calls in the same breath.

    Raises:
        ContractRefusedError: It must not be used.
    """
    if run.contracts is None or not text.strip() or not hears_text(run):
        return
    facts: Facts = {}
    arguments: dict[str, Any] = {"text": text, "tools": list(tools)} if tools else {"text": text}
    reservation = await reserve(run, run.contracts, ASSISTANT_TEXT, arguments, facts, started=True)
    if facts["acel"] == "shadow":
        write(run, ASSISTANT_TEXT, Verdict.ALLOW, "contracts", facts)
    failed = await reservation.acommit()
    if failed is not None:
        raise broken_result(run, ASSISTANT_TEXT, failed)


def about_run(run: RunState) -> dict[str, Any]:
    """Say of a run what contracts about its start and its end may read."""
    return {"agent_name": run.agent_name, "nested": run.identity.parent_workflow_id is not None}
