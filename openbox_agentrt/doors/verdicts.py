"""
Know in a door the governed run that it is called in, and the errors that governance raises.

It is read only where a governance was given: contracts alone need neither an agent runtime nor Core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openbox_agentrt._activity.outputs import WITHHELD_OUTPUT
from openbox_agentrt._run.contract_events import signal_violation
from openbox_agentrt._run.current import current_run
from openbox_agentrt.doors.arguments import ChangedArgumentsError, UnfitArgumentsError
from openbox_agentrt.errors import (
    ContractRefusedError,
    GovernanceBlockedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    UngovernedCallError,
)

if TYPE_CHECKING:
    from openbox_agentrt.acel import Refusal, Session


def judges_by(session: Session) -> bool:
    """Tell whether the current run judges by this very session, which would count each call twice."""
    run = current_run()
    return run is not None and run.contracts is session


def report_refusal(refusal: Refusal) -> None:
    """Tell Core of a call that the contracts refused. It was not asked."""
    run = current_run()
    if run is not None and refusal.contracts:
        signal_violation(run, refusal.tool, refusal.contracts, refusal.message)


def stop_of(error: BaseException, tool: str) -> GovernanceError | None:
    """Give the decision against a call that an error stands for; None if it is another kind of error."""
    if isinstance(error, ChangedArgumentsError | UnfitArgumentsError):
        # What runs would not be what was judged.
        return GovernanceBlockedError(str(error), event=tool)
    return error if isinstance(error, GovernanceError) else None


def withheld(tool: str) -> GovernanceError:
    """Give the decision that nothing of a result may be seen. The work has been done."""
    return GovernanceBlockedError(WITHHELD_OUTPUT, event=tool, ran=True)


def stops_the_run(error: BaseException) -> bool:
    """Tell whether an error is nothing that a model could act on: the run is halted, or there is none."""
    return isinstance(error, GovernanceHaltError | UngovernedCallError)


def told_of_verdict(error: Exception) -> dict[str, Any]:
    """Give what a model or a client may be told of a call that Core or a person decided against."""
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
