"""A refusal as the model sees it, in the shape of Agent-RT's own tool errors."""

from __future__ import annotations

from typing import Any

from ..errors import ContractRefusedError, GovernanceError, GovernanceHaltError, UngovernedCallError

BLOCKED = "governance_blocked"


class Unstored(dict[str, Any]):
    """
    Say as a tool's result why there is none.

    It is plain data to the model and to JSON. Its type tells an idempotency store not to keep it: the same
    call may be allowed the next time.
    """


def is_soft(error: GovernanceError) -> bool:
    """Tell whether the model may be told instead of the run being ended."""
    return not isinstance(error, GovernanceHaltError | UngovernedCallError)


def denial(tool: str, error: GovernanceError) -> Unstored:
    """Word `error` for the model."""
    told: dict[str, Any] = {"type": BLOCKED, "tool": tool, "message": str(error)}
    if isinstance(error, ContractRefusedError):
        told["refusal"] = error.refusal.for_model()
    return Unstored(error=told)


def withheld(tool: str) -> Unstored:
    """Tell the model that an output had to be redacted and could not be."""
    return Unstored(
        error={"type": BLOCKED, "tool": tool, "message": "the output had to be redacted and is withheld"}
    )


def timed_out(tool: str, seconds: float) -> Unstored:
    """Give Agent-RT's own message for a tool that took too long."""
    return Unstored(error={"type": "tool_timeout", "tool": tool, "timeout_seconds": seconds})
