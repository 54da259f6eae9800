"""Tell what runs and sessions leave unmet when they end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..._wire.identity import RunIdentity
from ...acel.events import RUN_ENDED
from ...decision import Verdict
from ...errors import UnmetContractError
from ..contract_events import about_run, signal_violation
from ..record import Facts, draft, write

if TYPE_CHECKING:
    from ...acel.session import Session
    from ...acel.violations import Violation
    from ...decision import AcelOutcome, Decision
    from ..services import Services
    from ..state import RunState
    from .sessions import EndedSession

log = logging.getLogger(__name__)

SESSION_ENDED: Final = "session_ended"


def conclude_contracts(run: RunState, error: BaseException | None) -> UnmetContractError | None:
    """
    Tell the contracts that `run` ends, and end the session if it is the run's own. Does not wait.

    Returns:
        The error that the run has to end with, under ``on_unmet="raise"``; None if it ends as it does.
    """
    if run.contracts is None or run.contracts_concluded or not run.admitted:
        return None
    run.contracts_concluded = True
    _note_end(run, run.contracts, error)
    if run.parent_shares_session:
        return None
    unmet = run.session.end_run(run.about.run) if run.session.shared else run.session.end()
    if not unmet:
        return None
    raises = run.services.options.on_unmet == "raise" and error is None and any(map(_in_force, unmet))
    decision = _report(run, unmet, acel="unmet", enforced=raises)
    return UnmetContractError(decision.contracts, decision=decision) if raises else None


def end_shared_session(services: Services, session_id: str) -> tuple[Violation, ...]:
    """
    End a session that runs share, and tell the observers what is unmet. Does not wait.

    Core is not told: its workflows are sealed by then, and a signal to one would be answered with HALT.

    Raises:
        KeyError: There is no open session of that id.
    """
    ended = services.sessions.end(session_id)
    tell_ended(services, ended)
    return ended.unmet


async def end_kept_session(services: Services, session_id: str) -> tuple[Violation, ...]:
    """
    Do as `end_shared_session`, for one that is kept in a store.

    Raises:
        KeyError: There is no session of that id.
        FleetError: The store does not answer, or another process has the session.
    """
    options = services.options
    identity = RunIdentity.mint(
        task_queue=options.task_queue, session_id=session_id, agent_name=services.name_of_agent(None)
    )
    ended = await services.sessions.end_kept(identity)
    tell_ended(services, ended)
    return ended.unmet


def tell_ended(services: Services, ended: EndedSession) -> None:
    """Tell the observers what a session has left unmet."""
    if ended.unmet:
        facts = _facts(ended.unmet)
        facts["acel"] = "unmet"
        decision = draft(ended.last_run, SESSION_ENDED, Verdict.ALLOW, "contracts", facts)
        services.observers.tell(decision, ended.recorder)


def end_shared_sessions(services: Services) -> None:
    """End all sessions that runs share; those that are kept in a store are left to other processes."""
    if services.sessions.durable:
        services.sessions.let_go()
        return
    for session_id in services.sessions.open_ids():
        end_shared_session(services, session_id)


def _note_end(run: RunState, contracts: Session, error: BaseException | None) -> None:
    kept = run.session.kept
    if kept is not None and not kept.is_held:
        # An end waits for nobody, and what the session remembers is with somebody else.
        log.warning("the end of run %s is not judged: its session is not held", run.run_id)
        return
    arguments = {**about_run(run), "status": "completed" if error is None else "failed"}
    reservation = contracts.reserve(RUN_ENDED, arguments, about=run.about)
    violations = list(reservation.violations)
    if reservation.allowed:
        failed = reservation.commit()
        violations += [] if failed is None else [failed]
    if violations:
        # It ends all the same: nothing can be refused any more.
        log.warning("the end of run %s breaks a contract", run.run_id)
        _report(run, violations, acel="shadow", enforced=False)


def _report(run: RunState, violations: Sequence[Violation], *, acel: AcelOutcome, enforced: bool) -> Decision:
    facts = _facts(violations)
    facts["acel"] = acel
    decision = write(run, RUN_ENDED, Verdict.BLOCK if enforced else Verdict.ALLOW, "contracts", facts)
    signal_violation(run, RUN_ENDED, decision.contracts, decision.reason, enforced=enforced)
    return decision


def _facts(violations: Sequence[Violation]) -> Facts:
    return {
        "contracts": tuple(violation.name for violation in violations),
        "reason": "; ".join(map(_describe, violations)),
    }


def _in_force(violation: Violation) -> bool:
    return violation.mode == "enforce"


def _describe(violation: Violation) -> str:
    return violation.name if violation.remedy is None else f"{violation.name}: {violation.remedy}"
