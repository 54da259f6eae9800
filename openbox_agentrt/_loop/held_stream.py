"""A model stream that is held back until its response has been judged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_rt import ModelRequest, ModelResponse, ModelStreamEvent

from .._run.contract_events import hears_text
from ..message_extraction import message_text
from .model_call import end_model_call, perform_model_call

if TYPE_CHECKING:
    from .._activity.activity import Activity

OpenStream = Callable[[ModelRequest], AsyncIterator[ModelStreamEvent]]
"""Opens the provider's own stream of a request."""

SPOKEN = frozenset({"text_delta", "reasoning_delta", "tool_call_delta"})


async def held_events(
    activity: Activity, request: ModelRequest, open_stream: OpenStream
) -> AsyncIterator[ModelStreamEvent]:
    """
    Hand on the events of a stream of `request`, all of which have arrived before the first is handed on.

    What may not be seen of the response is in none of them. A stream without a response cannot be judged:
    where outputs are, nothing of it is handed on.

    Nothing is bound while an event is handed on, so this may be an async generator.
    """
    judged = activity.run.services.options.enforces_outputs or hears_text(activity.run)
    events = await perform_model_call(activity, request, lambda: _collected(activity, open_stream(request)))
    response = next((event.response for event in reversed(events) if event.response is not None), None)
    if response is None:
        await activity.fail(RuntimeError("model stream ended without a completed response"))
        if judged:
            return
    else:
        thoughts = "".join(event.text or "" for event in events if event.type == "reasoning_delta")
        shown = await end_model_call(activity, response, reasoning=thoughts)
        if judged:
            # Core was told the response, and only what that says has been judged.
            said = shown.message is response.message and not _says_more(events, response)
            events = list(_bare(events, shown) if said else _respoken(shown))
    for event in events:
        yield event


async def _collected(activity: Activity, stream: AsyncIterator[ModelStreamEvent]) -> list[ModelStreamEvent]:
    events: list[ModelStreamEvent] = []
    try:
        async for event in stream:
            activity.gave = True
            events.append(event)
        return events
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _says_more(events: Sequence[ModelStreamEvent], response: ModelResponse) -> bool:
    """Tell whether the events of a stream say anything else than its `response` does."""
    *before, last = events
    if last.response is not response or any(event.response is not None for event in before):
        return True
    if any(event.text for event in events if event.type not in SPOKEN):
        return True
    spoken = "".join(event.text or "" for event in events if event.type == "text_delta")
    return spoken != message_text(response.message) or _calls_differ(events, response)


def _calls_differ(events: Sequence[ModelStreamEvent], response: ModelResponse) -> bool:
    written: dict[tuple[str | None, str | None], str] = {}
    for event in events:
        if event.type == "tool_call_delta":
            call = (event.tool_call_id, event.tool_name)
            written[call] = written.get(call, "") + (event.arguments_delta or "")
    said = {(call.id, call.name): call.arguments for call in response.message.tool_calls}
    return any(call not in said or _read(text) != said[call] for call, text in written.items())


def _read(arguments: str) -> object:
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return None


def _bare(events: Sequence[ModelStreamEvent], response: ModelResponse) -> Iterator[ModelStreamEvent]:
    """Give the events without what Core was not told: a provider's own objects, and how it says it fares."""
    for event in events:
        if event.type in SPOKEN:
            yield replace(event, status=None, raw=None)
    yield ModelStreamEvent(type="completed", response=response)


def _respoken(response: ModelResponse) -> Iterator[ModelStreamEvent]:
    """Give the events that lead to `response`, in the place of those that were spoken."""
    if text := message_text(response.message):
        yield ModelStreamEvent(type="text_delta", text=text)
    for call in response.message.tool_calls:
        yield ModelStreamEvent(
            type="tool_call_delta",
            tool_call_id=call.id,
            tool_name=call.name,
            arguments_delta=json.dumps(call.arguments, default=str),
        )
    yield ModelStreamEvent(type="completed", response=response)
