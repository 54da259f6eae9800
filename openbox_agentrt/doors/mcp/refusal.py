"""
Tell a client why a call is refused: the contract, what it needs, and no more.

The text and the keys ``acel_halted`` and ``violation`` are those that clients of acel-core look for. Its
record of the violation is not: that holds the trace, the state and the arguments of other calls, and stays in
the evidence.
"""

import logging
from collections.abc import Mapping
from typing import Any

from ...acel import Broken, ContractViolation, Refusal, Session, Violation
from ...acel.refusal import MAX_NAME
from ..unfit import REMEDY, report_unfit
from .calls import ServerCall
from .schema import OffSchemaError

log = logging.getLogger(__name__)

HALT = "ACEL HALT: "


def told_to_client(error: ContractViolation) -> tuple[str, dict[str, Any]]:
    """Give text and structured half of what a client is told of a call that the contracts stopped."""
    if error.refusal is None:
        return withheld_data(error.violation)
    return text_of(error.refusal), refused_data(error.refusal)


def withheld_data(violation: Violation) -> tuple[str, dict[str, Any]]:
    """Give text and structured half for a call that ran and whose result must not be used."""
    told = {
        "kind": violation.kind,
        "spec": violation.name,
        "tool": violation.tool[:MAX_NAME],
        "step": violation.step,
    }
    text = f"call to {told['tool']!r} ran at step {violation.step}, its result broke {violation.name}"
    return text, {"acel_halted": True, "violation": told}


def refused_data(refusal: Refusal) -> dict[str, Any]:
    """Give the structured half of a refusal."""
    first, told = refusal.broken[0], refusal.for_model()
    violation = {"kind": first.kind, "spec": first.name, "tool": told["tool"], "step": refusal.step}
    return {"acel_halted": True, "violation": violation, "refusal": told}


def text_of(refusal: Refusal) -> str:
    """Say a refusal in one line, with the advice of the contracts that have some."""
    advice = [broken.remedy for broken in refusal.broken if broken.remedy]
    return "; ".join([refusal.message, *advice])


def halted(text: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Give a `CallToolResult` that says that a call was halted."""
    return {
        "content": [{"type": "text", "text": f"{HALT}{text}"}],
        "structuredContent": dict(data),
        "isError": True,
    }


def error_result(text: str) -> dict[str, Any]:
    """Give a `CallToolResult` that says that a call failed, in the server's own words."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def unjudged(tool: str, *, reason: str, remedy: str) -> tuple[str, dict[str, Any]]:
    """Give text and structured half of a refusal for want of a session to judge the call in."""
    broken = Broken(contract=reason, kind="session", remedy=remedy)
    data = refused_data(Refusal(tool=tool, step=0, broken=(broken,)))
    text = f"call to {tool[:MAX_NAME]!r} refused, {reason}; {remedy}"
    data["refusal"]["message"] = text
    return text, data


def off_schema(session: Session, call: ServerCall, error: OffSchemaError) -> tuple[str, dict[str, Any]]:
    """Note a call that is not as its tool was listed, and give text and structured half of its refusal."""
    log.warning("a call to %r is not as its tool was listed: %s", call.tool, error)
    report_unfit(session, call.tool, call.args, str(error))
    return unjudged(call.tool, reason=str(error), remedy=REMEDY)
