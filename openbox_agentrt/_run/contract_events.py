"""The events of a run that only the local contracts judge: its start, its end, and what is unmet then."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from openbox_core.contracts.results import Verdict

from .._core.decision import Decision
from ..acel.refusal import Broken, Refusal
from ..errors import ContractRefusedError, UnmetContractError
from ..lifecycle_events import contract_violation
from .case import Case
from .docket import Docket

if TYPE_CHECKING:
    from ..acel.violations import Violation
    from .state import RunState

log = logging.getLogger(__name__)

RUN_STARTED: Final = "run_started"
RUN_ENDED: Final = "run_ended"


async def admit_run(run: RunState) -> None:
    """
    Have the contracts judge the start of `run`.

    Raises:
        ContractRefusedError: The run may not start.
    """
    if run.contracts is None:
        return
    case = Case(event=RUN_STARTED, activity_id=None, envelope=None, arguments=_about(run))
    docket = Docket(run, case)
    reservation = await run.judge.reserve(docket)
    if docket.facts["acel"] == "shadow":
        docket.close(Verdict.ALLOW, source="contracts")
    if reservation is not None:
        await reservation.acommit()


def broken_result(run: RunState, case: Case, violation: Violation) -> ContractRefusedError:
    """The error for a result that breaks a postcondition. The work has run."""
    refusal = Refusal(
        tool=violation.tool,
        step=violation.step,
        broken=(
            Broken(
                contract=violation.spec,
                id=violation.id,
                kind=violation.kind,
                severity=violation.severity,
                remedy=violation.remedy,
                fault=violation.fault,
            ),
        ),
    )
    error = ContractRefusedError(refusal, ran=True)
    docket = Docket(run, case, facts={"acel": "refused", "contracts": (violation.spec,)})
    docket.refused(error, Verdict.BLOCK, source="contracts", reason=error.reason)
    return error


def conclude_contracts(run: RunState, error: BaseException | None) -> UnmetContractError | None:
    """
    Tell the contracts that `run` ends, and end the session if it is the run's own. Does not wait.

    Returns:
        The error that the run has to end with, under ``on_unmet="raise"``; None if it ends as it does.
    """
    if run.contracts is None or run.contracts_concluded:
        return None
    run.contracts_concluded = True
    _note_end(run, error)
    if run.parent_shares_session or run.session.shared:
        return None
    unmet = run.session.end()
    if not unmet:
        return None
    specs = tuple(violation.spec for violation in unmet)
    raises = run.judge.options.on_unmet == "raise" and error is None and any(_in_force(one) for one in unmet)
    reason = "; ".join(_describe(violation) for violation in unmet)
    decision = Decision(
        event=RUN_ENDED,
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        verdict=Verdict.BLOCK if raises else Verdict.ALLOW,
        source="contracts",
        acel="unmet",
        contracts=specs,
        reason=reason,
    )
    run.note(decision)
    run.outbox.post(
        contract_violation(run.identity, event=RUN_ENDED, contracts=specs, reason=reason, enforced=raises)
    )
    return UnmetContractError(specs, decision=decision) if raises else None


def _note_end(run: RunState, error: BaseException | None) -> None:
    assert run.contracts is not None
    arguments = {**_about(run), "status": "completed" if error is None else "failed"}
    reservation = run.contracts.reserve(RUN_ENDED, arguments)
    if not reservation.allowed:
        # It ends all the same; the contract is on record.
        log.warning("the end of run %s breaks a contract", run.run_id)
        return
    reservation.commit()


def _about(run: RunState) -> dict[str, Any]:
    return {"agent_name": run.agent_name, "nested": run.parent is not None}


def _in_force(violation: Violation) -> bool:
    return violation.mode == "enforce"


def _describe(violation: Violation) -> str:
    return violation.spec if violation.remedy is None else f"{violation.spec}: {violation.remedy}"
