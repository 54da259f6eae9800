"""Find the calls that Agent-RT has refused before they could be judged, and keep them in the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._plain.arguments import plain_arguments
from ..acel.contracts.base import OFF_SCHEMA
from ..acel.memory.call import JudgedCall
from ..acel.session import engine_of

if TYPE_CHECKING:
    from agent_rt import ModelMessage, ToolCall

    from .._run.state import RunState

_REFUSED: Final = "tool_argument_validation"
"""Type of the error by which Agent-RT tells the model so, whatever was wrong."""

_FAULT: Final = "the loop refused it: there is no such tool for the agent, or it does not take the arguments"


def note_refused_calls(run: RunState, messages: Sequence[ModelMessage]) -> None:
    """
    Keep what the loop refused of the calls that the model of `run` asked for last.

    No contract counts such a call, and Core is not told of it: it never began.

    Args:
        run: The run.
        messages: What was said in it, the answers to those calls included.
    """
    unjudged, run.unjudged_calls = run.unjudged_calls, {}
    refused = _refused_in(messages)
    for name, call in unjudged.items():
        if name in refused:
            _report(run, call)


def _refused_in(messages: Sequence[ModelMessage]) -> set[str | None]:
    found: set[str | None] = set()
    for message in reversed(messages):
        if message.role != "tool":
            break
        if any(_is_refusal(part.data) for part in message.content):
            found.add(message.tool_call_id)
    return found


def _is_refusal(data: object) -> bool:
    error = data.get("error") if isinstance(data, Mapping) else None
    return isinstance(error, Mapping) and error.get("type") == _REFUSED


def _report(run: RunState, call: ToolCall) -> None:
    assert run.contracts is not None
    args: Any = run.redactions.value(call.arguments)
    judged = JudgedCall(call.name, plain_arguments(args))
    engine_of(run.contracts).report_unjudged(judged, OFF_SCHEMA, _FAULT)
