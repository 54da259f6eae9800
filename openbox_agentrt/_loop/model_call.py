"""One model call through governance: what provider and stream have in common."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from agent_rt import ModelRequest, ModelResponse

from .._activity.outputs import WITHHELD, WITHHELD_OUTPUT, expects_answer, seen
from .._activity.screening import check_redacted, judge_input, perform_as_judged, take_prescreen
from .._run.contract_events import judge_text
from .._run.current import is_in_activity
from .._run.redaction.mutable_parts import mutable_parts, serialized
from .._wire.model_input import message_elements
from ..lifecycle_events import LLM_ACTIVITY
from ..message_extraction import message_text, response_output, with_text
from .denial import withheld_response
from .reasoning import reasoning_text, without_reasoning
from .refused_calls import note_refused_calls

if TYPE_CHECKING:
    from .._activity.activity import Activity
    from .._run.runs import Runs
    from .._run.state import RunState
    from ..decision import Answer

T = TypeVar("T")

log = logging.getLogger(__name__)

REDACTED = "the output, as it was redacted, is not the structured output that the agent has to give"

_TEXT_ALONE = {"role", "text"}
"""Keys of the element that tells a message's text, which is the `completion`."""


async def begin_model_call(judge: Runs, request: ModelRequest) -> tuple[Activity, ModelRequest]:
    """
    Have a model call judged.

    Returns:
        The activity, and the request to send: `request` itself when nothing in it was redacted.

    Raises:
        GovernanceError: The model may not be called.
    """
    run = judge.around(LLM_ACTIVITY)
    if run.unjudged_calls and not is_in_activity(run):
        note_refused_calls(run, request.messages)
    if type(request.messages) is not tuple:
        # Whoever has the list may go on filling it.
        request = replace(request, messages=tuple(request.messages))
    # A pre-screen is open until the call comes that it was made for.
    activity = await take_prescreen(run, request.messages) if run.open_activities else None
    if activity is None:
        activity = await judge_input(
            run, request.messages, model=request.model, max_output_tokens=request.max_output_tokens
        )
    activity.gave = False
    redacted = redacted_request(run, request)
    if activity.is_redacted():
        await check_redacted(activity, redacted.messages)
    return activity, redacted


def perform_model_call(
    activity: Activity, request: ModelRequest, work: Callable[[], Awaitable[T]]
) -> Awaitable[T]:
    """
    Do `work`, which sends `request`, inside `activity`.

    Raises:
        GovernanceBlockedError: The messages changed while constraints were put in place. Nothing was sent.
    """
    return perform_as_judged(
        activity,
        work,
        lambda: serialized([part for each in request.messages for part in mutable_parts(each)]),
    )


def redacted_request(run: RunState, request: ModelRequest) -> ModelRequest:
    """Copy `request` without what was redacted so far; `request` itself when nothing of that is in it."""
    messages = run.redactions.messages(request.messages)
    return request if messages is request.messages else replace(request, messages=messages)


async def end_model_call(
    activity: Activity, response: ModelResponse, *, reasoning: str = ""
) -> ModelResponse:
    """
    Report a model's response, and give what may be seen of it.

    Args:
        reasoning: What the model thought aloud while it was streamed.

    Raises:
        ContractRefusedError: The response breaks a postcondition, or what it says a contract. It must not be
            used.
    """
    activity.gave = True
    held = mutable_parts(response.message)
    before = serialized(held) if held else b""
    output = response_output(response)
    run, services = activity.run, activity.run.services
    measured = None if activity.reservation is None else _measured(run, response, output)
    if services.enforces_outputs:
        output |= _further(response, reasoning)
    answer = await activity.complete(output, result=output, measured=measured)
    is_withheld = False
    if services.enforces_outputs:
        response, is_withheld = _enforced(activity, response, output, answer)
    message = response.message
    if run.contracts is not None and not is_withheld:
        if not is_in_activity(run):  # or a tool has asked the model, and no loop makes the calls
            run.unjudged_calls = {call.id: call for call in message.tool_calls}
        await judge_text(run, message_text(message), [call.name for call in message.tool_calls])
    told = answer is not None or is_withheld or not expects_answer(activity)
    if told and (not held or serialized(held) == before):
        # Core has been told, or nobody wants it to be, and nobody has changed it meanwhile.
        run.judged.remember_message(run.redactions.messages((message,))[0])
    return response


def _enforced(
    activity: Activity, response: ModelResponse, output: dict[str, Any], answer: Answer | None
) -> tuple[ModelResponse, bool]:
    """Give what Core lets be seen of a response, and whether that is nothing."""
    run, given = activity.run, response.message
    shown = seen(activity, output, answer)
    if shown is not WITHHELD and shown.get("parts") != run.redactions.value(output.get("parts")):
        # Fail-closed: what Core redacts in parts that are no text cannot be edited from here.
        shown = WITHHELD
    if shown is WITHHELD:
        run.altered_answer = WITHHELD_OUTPUT
        return withheld_response(response), True
    response = _as_seen(run, response, output, shown)
    run.altered_answer = None if response.message is given else REDACTED
    return response, False


def _further(response: ModelResponse, reasoning: str) -> dict[str, Any]:
    """Give what a response holds beside its text: reasoning, parts that are no text, and tool calls."""
    thoughts = reasoning or reasoning_text(response.message)
    spoken = without_reasoning(response.message)
    parts = [element for element in message_elements((spoken,)) if element.keys() != _TEXT_ALONE]
    return ({"reasoning": thoughts} if thoughts else {}) | ({"parts": parts} if parts else {})


def _measured(run: RunState, response: ModelResponse, output: Mapping[str, Any]) -> dict[str, Any]:
    measured = {
        name: output[name]
        for name in ("input_tokens", "output_tokens", "total_tokens")
        if output[name] is not None
    }
    if run.estimate_cost is not None:
        try:
            measured["cost"] = max(0.0, float(run.estimate_cost(response)))
        except Exception:
            # Fail-closed: a contract over a cost that nobody knows refuses the next call.
            log.exception("the cost of a model call could not be estimated")
    return measured


def _as_seen(
    run: RunState, response: ModelResponse, output: Mapping[str, Any], shown: Mapping[str, Any]
) -> ModelResponse:
    """Give `response` with what may be seen of its text and its reasoning."""
    message = response.message
    text = shown["completion"] or ""
    if text != output["completion"]:
        run.redactions.learn(output["completion"], text)
        message = with_text(message, text)
    thoughts_redacted = shown.get("reasoning") != output.get("reasoning")
    if thoughts_redacted:
        message = without_reasoning(message)
    # Core was not shown what it has redacted before, and says nothing about it.
    (message,) = run.redactions.messages((message,))
    if message is response.message and response.raw is None:
        return response
    # What the provider's own object holds was neither shown to Core nor redacted.
    return replace(response, message=message, raw=None)
