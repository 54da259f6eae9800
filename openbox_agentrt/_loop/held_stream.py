"""A model stream that is held back until its response has been judged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_rt import ModelResponse, ModelStreamEvent

from .._activity.perform import perform
from ..errors import (
    GovernanceBlockedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    GuardrailsValidationError,
)
from ..lifecycle_events import LLM_ACTIVITY
from ..message_extraction import message_text
from .model_call import end_model_call

if TYPE_CHECKING:
    from .._activity.activity import Activity
    from ..decision import Answer

OpenStream = Callable[[], AsyncIterator[ModelStreamEvent]]

SPOKEN = frozenset({"text_delta", "reasoning_delta"})


async def held_events(activity: Activity, open_stream: OpenStream) -> AsyncIterator[ModelStreamEvent]:
    """
    Hand on the events of a stream, all of which have arrived before the first is handed on.

    Nothing is bound while an event is handed on, so this may be an async generator.

    Raises:
        GovernanceError: Core's answer to the response forbids handing it on. The model has run.
    """
    events = await perform(activity, lambda: _collected(open_stream))
    response = next((event.response for event in reversed(events) if event.response is not None), None)
    if response is None:
        await activity.fail(RuntimeError("model stream ended without a completed response"))
    else:
        redacted, answer = await end_model_call(activity, response)
        _refuse(activity, answer)
        if redacted is not response:
            events = _respoken(events, redacted)
    for event in events:
        yield event


async def _collected(open_stream: OpenStream) -> list[ModelStreamEvent]:
    stream = open_stream()
    try:
        return [event async for event in stream]
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _refuse(activity: Activity, answer: Answer | None) -> None:
    if answer is None:
        options = activity.run.services.options
        if options.buffer_streams and options.send_llm_end_event and options.withholds_unjudged_output():
            # Fail-closed: it was held back to be judged, and was not.
            raise GovernanceUnavailableError(
                "core could not be told of the response", kind="outage", event=LLM_ACTIVITY, ran=True
            )
        return
    error: GovernanceError | None = None
    reason = answer.reason or "the response was refused by policy"
    if answer.latches:
        error = GovernanceHaltError(
            reason, event=LLM_ACTIVITY, policy_id=answer.policy_id, result=answer.result, ran=True
        )
    elif answer.verdict.should_stop():
        error = GovernanceBlockedError(
            reason, event=LLM_ACTIVITY, policy_id=answer.policy_id, result=answer.result, ran=True
        )
    elif answer.guardrails is not None and not answer.guardrails.validation_passed:
        error = GuardrailsValidationError(
            answer.guardrails.reasons, event=LLM_ACTIVITY, result=answer.result, ran=True
        )
    if error is not None:
        raise error


def _respoken(events: list[ModelStreamEvent], response: ModelResponse) -> list[ModelStreamEvent]:
    """Copy events with the words of `response` in the place of those that were spoken."""
    text = message_text(response.message)
    spoken = [ModelStreamEvent(type="text_delta", text=text)] if text else []
    others = [event for event in events if event.type not in SPOKEN]
    return spoken + [
        event if event.response is None else replace(event, response=response, raw=None) for event in others
    ]
