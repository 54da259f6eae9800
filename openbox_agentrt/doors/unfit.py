"""
The evidence of a call that is refused before it can be judged, and of an end that nobody could take note of.

A tool does not take the arguments of a call, or two readers would read it differently. It does not run, no
contract counts it, and it is in the evidence and the metrics once, whatever the door. Of what has ended
already nothing is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from openbox_agentrt._plain.arguments import plain_arguments
from openbox_agentrt.acel.contracts.base import OFF_SCHEMA, SessionRule
from openbox_agentrt.acel.memory.call import JudgedCall
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.acel.violations import SESSION_END

if TYPE_CHECKING:
    from openbox_agentrt.acel import Session

REMEDY: Final = OFF_SCHEMA.remedy or ""

_UNNAMED: Final = "(unnamed)"

_CLEAR: Final = SessionRule("the call can be read in one way only", code="call_unclear")
_JUDGED: Final = SessionRule("the call can be judged", code="call_unjudged")
_NOTED: Final = SessionRule("the end of the call is known", code="end_unknown")
_SETTLED: Final = SessionRule("what the session owes is known", code="session_unsettled")


def report_unfit(session: Session | None, tool: str, args: Mapping[str, Any], fault: str) -> None:
    """
    Keep a call that is not as its tool was listed in the evidence of a session.

    Args:
        session: Session that would have judged it; None for that of the governed run around, if there is one.
        tool: Name of the tool.
        args: The arguments as they were sent.
        fault: What is wrong with them, in words that hold no value of theirs.
    """
    _report(session, tool, args, OFF_SCHEMA, fault)


def report_unclear(session: Session | None, tool: str | None, fault: str) -> None:
    """Keep a call in the evidence of a session that nobody can read, or that two would read differently."""
    _report(session, tool or _UNNAMED, {}, _CLEAR, fault)


def report_unjudged(
    session: Session, tool: str, args: Mapping[str, Any], error: Exception, *, fault: str | None = None
) -> None:
    """Keep a call in the evidence of a session that could not be judged, with `fault` or the error's type."""
    _report(session, tool, args, _JUDGED, fault or f"judging it raised {type(error).__name__}")


def report_unnoted(
    session: Session, tool: str, args: Mapping[str, Any], error: Exception, *, fault: str | None = None
) -> None:
    """Keep in the evidence of a session that a call has ended and nobody knows how, as `report_unjudged`."""
    words = fault or f"taking note of it raised {type(error).__name__}"
    _report(session, tool or _UNNAMED, args, _NOTED, words, stops=False)


def report_unsettled(session: Session, error: Exception, *, fault: str | None = None) -> None:
    """Keep in the evidence of a session that nobody knows what it owes, as `report_unjudged`."""
    words = fault or f"settling it raised {type(error).__name__}"
    _report(session, SESSION_END, {}, _SETTLED, words, stops=False)


def _report(
    session: Session | None,
    tool: str,
    args: Mapping[str, Any],
    rule: SessionRule,
    fault: str,
    *,
    stops: bool = True,
) -> None:
    if session is None:
        # Loaded here: contracts alone need no governed run.
        from openbox_agentrt._run.current import current_run

        run = current_run()
        session = None if run is None else run.contracts
    if session is not None:
        call = JudgedCall(tool, plain_arguments(args))
        engine_of(session).report_unjudged(call, rule, fault, stops=stops)


def fault_of(error: BaseException) -> str:
    """Say why a tool does not take its arguments, without the values that a validator quotes."""
    if type(error).__module__.startswith("pydantic") and isinstance(error, ValueError):
        errors = cast("Any", error).errors()
        found = [f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in errors]
        return f"the arguments do not fit: {'; '.join(found)}"
    return f"reading the arguments raised {type(error).__name__}"
