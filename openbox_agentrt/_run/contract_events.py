"""What only the local contracts judge: the start and the end of a run, its results, and what is unmet."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from openbox_core.contracts.results import Verdict

from .._activity.record import Docket
from .._activity.request import Case
from ..acel.refusal import Broken, Refusal
from ..decision import Decision
from ..errors import ContractRefusedError, UnmetContractError
from ..lifecycle_events import contract_violation

if TYPE_CHECKING:
    from .._activity.judge import Judge
    from .._wire.identity import RunIdentity
    from ..acel.violations import Violation
    from ..decision import AcelOutcome
    from .state import RunState

log = logging.getLogger(__name__)

RUN_STARTED: Final = "run_started"
RUN_ENDED: Final = "run_ended"
SESSION_ENDED: Final = "session_ended"


def signal_violation(
    run: RunState, event: str, contracts: Sequence[str], reason: str | None, *, enforced: bool = True
) -> None:
    """Let Core know that `event` broke contracts, so that its dashboard shows it. Does not wait."""
    run.outbox.post(
        contract_violation(
            run.identity,
            signal_id=str(uuid.uuid4()),
            event=event,
            contracts=contracts,
            reason=reason,
            enforced=enforced,
        )
    )


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
    run.admitted = True
    if reservation is not None:
        failed = await reservation.acommit()
        if failed is not None:
            raise broken_result(run, case, failed)


def broken_result(run: RunState, case: Case, violation: Violation) -> ContractRefusedError:
    """The error for a result that breaks a postcondition. The work has run."""
    refusal = Refusal(
        tool=violation.tool,
        step=violation.step,
        broken=(
            Broken(
                contract=violation.spec,
                label=violation.label,
                id=violation.id,
                kind=violation.kind,
                severity=violation.severity,
                remedy=violation.remedy,
                fault=violation.fault,
            ),
        ),
    )
    error = ContractRefusedError(refusal, ran=True)
    docket = Docket(run, case, facts={"acel": "refused", "contracts": (violation.name,)})
    docket.refused(error, Verdict.BLOCK, source="contracts", reason=error.reason)
    return error


def conclude_contracts(run: RunState, error: BaseException | None) -> UnmetContractError | None:
    """
    Tell the contracts that `run` ends, and end the session if it is the run's own. Does not wait.

    Returns:
        The error that the run has to end with, under ``on_unmet="raise"``; None if it ends as it does.
    """
    if run.contracts is None or run.contracts_concluded or not run.admitted:
        return None
    run.contracts_concluded = True
    _note_end(run, error)
    if run.parent_shares_session or run.session.shared:
        return None
    unmet = run.session.end()
    if not unmet:
        return None
    raises = run.judge.options.on_unmet == "raise" and error is None and any(_in_force(one) for one in unmet)
    decision = _report(run, unmet, acel="unmet", enforced=raises)
    return UnmetContractError(decision.contracts, decision=decision) if raises else None


def end_shared_session(judge: Judge, session_id: str) -> tuple[Violation, ...]:
    """
    End a session that runs share, and tell the observers what is unmet. Does not wait.

    Core is not told: its workflows are sealed by then, and a signal to one would be answered with HALT.

    Raises:
        KeyError: There is no open session of that id.
    """
    ended = judge.sessions.end(session_id)
    if ended.unmet:
        decision = _decision(SESSION_ENDED, ended.last_run, ended.unmet, acel="unmet", enforced=False)
        judge.observers.tell(decision, ended.session.recorder)
    return ended.unmet


def end_shared_sessions(judge: Judge) -> None:
    """End all of them."""
    for session_id in judge.sessions.open_ids():
        end_shared_session(judge, session_id)


def _report(run: RunState, violations: Sequence[Violation], *, acel: AcelOutcome, enforced: bool) -> Decision:
    decision = _decision(RUN_ENDED, run.identity, violations, acel=acel, enforced=enforced)
    run.note(decision)
    signal_violation(run, RUN_ENDED, decision.contracts, decision.reason, enforced=enforced)
    return decision


def _decision(
    event: str,
    identity: RunIdentity,
    violations: Sequence[Violation],
    *,
    acel: AcelOutcome,
    enforced: bool,
) -> Decision:
    return Decision(
        event=event,
        workflow_id=identity.workflow_id,
        run_id=identity.run_id,
        verdict=Verdict.BLOCK if enforced else Verdict.ALLOW,
        source="contracts",
        acel=acel,
        contracts=tuple(violation.name for violation in violations),
        reason="; ".join(_describe(violation) for violation in violations),
    )


def _note_end(run: RunState, error: BaseException | None) -> None:
    assert run.contracts is not None
    arguments = {**_about(run), "status": "completed" if error is None else "failed"}
    reservation = run.contracts.reserve(RUN_ENDED, arguments)
    violations = list(reservation.violations)
    if reservation.allowed:
        failed = reservation.commit()
        violations += [] if failed is None else [failed]
    if violations:
        # It ends all the same: nothing can be refused any more.
        log.warning("the end of run %s breaks a contract", run.run_id)
        _report(run, violations, acel="shadow", enforced=False)


def _about(run: RunState) -> dict[str, Any]:
    return {"agent_name": run.agent_name, "nested": run.parent is not None}


def _in_force(violation: Violation) -> bool:
    return violation.mode == "enforce"


def _describe(violation: Violation) -> str:
    return violation.name if violation.remedy is None else f"{violation.name}: {violation.remedy}"
