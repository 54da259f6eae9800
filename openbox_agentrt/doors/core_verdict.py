"""
A call that OpenBox Core judges after the contracts: an activity in the run that the caller is in.

The contracts' reservation is held while Core is asked, and taken back if anybody objects. It is committed
inside the activity, so that a result that breaks a postcondition is a failure to Core as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from openbox_agentrt._run.contract_events import signal_violation
from openbox_agentrt._run.state import current_run
from openbox_agentrt.errors import (
    ContractRefusedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    UngovernedCallError,
)

if TYPE_CHECKING:
    from openbox_agentrt.acel import Refusal, Reservation, Session, Violation
    from openbox_agentrt.doors.call import GatedCall, Governance

__all__ = ("run_judged_by_core", "told_of_verdict")


class _NotDoneError(Exception):
    """Ends an activity whose result must not be taken for work that was done."""


async def run_judged_by_core(
    call: GatedCall, governance: Governance, work: Callable[[Mapping[str, Any]], Awaitable[Any]]
) -> Any:
    """
    Do the work of a call if the contracts and Core admit it.

    Raises:
        GovernanceError: Core or a person decided against it, if the call does not say what to do then. A halt
            and a call outside of any run are always raised.
    """
    reservation: Reservation | None = None
    if call.session is not None and not _judged_with_core(call.session):
        reservation = await call.session.areserve(call.tool, call.args)
        if reservation.refusal is not None:
            _report(reservation.refusal)
            return call.refused(reservation)
    begun = False
    outcome: list[Any] = []
    broken: Violation | None = None
    try:
        async with governance.activity(call.tool, [dict(call.args)]) as activity:
            given = activity.input[0]
            changed = given != dict(call.args)
            begun = True
            outcome.append(await work(given if changed else call.args))
            activity.output = outcome[0]
            if not call.succeeded(outcome[0]):
                raise _NotDoneError
            if reservation is not None:
                broken = await reservation.acommit(outcome[0], args=given if changed else None)
            if broken is not None:
                raise _NotDoneError
    except _NotDoneError:
        if broken is not None and reservation is not None:
            return call.stopped(broken, reservation)
        _abort(reservation, None, ran=True)
    except GovernanceError as error:
        _abort(reservation, error, ran=begun)
        if call.on_stop is None or isinstance(error, GovernanceHaltError | UngovernedCallError):
            raise
        return call.on_stop(error)
    except BaseException as error:
        _abort(reservation, error, ran=begun and call.may_have_run(error))
        raise
    return outcome[0]


def told_of_verdict(error: Exception) -> dict[str, Any]:
    """What a model or a client may be told of a call that Core or a person decided against."""
    if isinstance(error, ContractRefusedError):
        told: dict[str, Any] = error.refusal.for_model()
        return told
    event = getattr(error, "event", None)
    if isinstance(error, GovernanceUnavailableError):
        # Its text is for the operator: it may name hosts.
        message = "the call could not be judged; try again later"
    else:
        remedy = getattr(error, "remedy", None)
        message = f"{error}; {remedy}" if remedy else str(error)
    return {"refused": True, "tool": event, "message": message}


def _report(refusal: Refusal) -> None:
    """Tell Core of a call that the contracts refused. It was not asked."""
    run = current_run()
    if run is not None:
        specs = tuple(broken.name for broken in refusal.broken)
        signal_violation(run, refusal.tool, specs, refusal.message)


def _judged_with_core(session: Session) -> bool:
    """Whether the run that the caller is in judges by the same session, and would count the call twice."""
    run = current_run()
    return run is not None and run.contracts is session


def _abort(reservation: Reservation | None, error: BaseException | None, *, ran: bool) -> None:
    if reservation is not None and not reservation.finished:
        reservation.abort(error, ran=ran)
