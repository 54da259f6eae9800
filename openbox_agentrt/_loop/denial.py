"""A refusal as the model sees it, in the shape of Agent-RT's own tool errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent_rt import ContentPart, ModelMessage, ModelResponse

from .._activity.outputs import WITHHELD_OUTPUT
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


def withheld(tool: str) -> dict[str, Any]:
    """
    Tell the model that a tool ran and that its output is not for it to see.

    An idempotency store keeps this: the tool must not run a second time.
    """
    return {"error": {"type": BLOCKED, "tool": tool, "message": WITHHELD_OUTPUT}}


def withheld_response(response: ModelResponse) -> ModelResponse:
    """Put a few words of ours in the place of a model's answer, tool calls included."""
    message = ModelMessage("assistant", (ContentPart("text", WITHHELD_OUTPUT),))
    return replace(response, message=message, finish_reason="content_filter", raw=None)


def timed_out(tool: str, seconds: float) -> Unstored:
    """Give Agent-RT's own message for a tool that took too long."""
    return Unstored(error={"type": "tool_timeout", "tool": tool, "timeout_seconds": seconds})
