"""Model providers for Agent-RT that answer from a script, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from agent_rt import (
    ContentPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelUsage,
    ToolCall,
)

from .script import Call, Reply, Respond, Script, Step, chunks_of

Sleep = Callable[[float], Awaitable[None]]


class CompleteOnlyProvider:
    """
    Answer from a script, as a provider that can complete but not stream.

    Attributes:
        requests: Every request that it was given, in order.
    """

    def __init__(
        self,
        *steps: Step | Respond,
        respond: Respond | None = None,
        name: str = "scripted",
        model: str = "scripted-1",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._script = Script(steps, respond)
        self._name = name
        self._model = model
        self._sleep = sleep
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def remaining(self) -> int:
        """Count the steps of the script that no request has used yet."""
        return self._script.remaining

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Give the next answer of the script."""
        reply = await self._begin(request)
        if reply.error is not None:
            raise reply.error
        return self._response(reply)

    async def _begin(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        reply = self._script.next(request)
        if reply.delay_seconds > 0:
            await self._sleep(reply.delay_seconds)
        return reply

    def _response(self, reply: Reply) -> ModelResponse:
        return ModelResponse(
            message=ModelMessage(
                role="assistant",
                content=(ContentPart(type="text", text=reply.text),) if reply.text else (),
                tool_calls=tuple(_tool_call(call) for call in reply.calls),
            ),
            model=self._model,
            usage=_usage(reply),
            finish_reason=reply.finish,
        )


class ScriptedProvider(CompleteOnlyProvider):
    """
    Answer from a script, as a provider that can complete and stream.

    A stream yields the reasoning, then the text word by word, then the tool calls, then one
    ``completed`` event: what Agent-RT's own providers do.

    Attributes:
        streams_opened: Streams from which something was read.
        streams_closed: Streams that ended, failed or were closed.
    """

    streams_opened: int = 0
    streams_closed: int = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        """Stream the next answer of the script."""
        self.streams_opened += 1
        try:
            reply = await self._begin(request)
            for sent, event in enumerate(_events(reply)):
                if reply.error is not None and sent >= reply.error_after_chunks:
                    raise reply.error
                if sent and reply.chunk_delay_seconds > 0:
                    await self._sleep(reply.chunk_delay_seconds)
                yield event
            if reply.error is not None:
                raise reply.error
            yield ModelStreamEvent(type="completed", response=self._response(reply))
        finally:
            self.streams_closed += 1


def _events(reply: Reply) -> list[ModelStreamEvent]:
    events = [ModelStreamEvent(type="reasoning_delta", text=part) for part in chunks_of(reply.reasoning)]
    events += [ModelStreamEvent(type="text_delta", text=part) for part in chunks_of(reply.text)]
    events += [
        ModelStreamEvent(
            type="tool_call_delta",
            tool_call_id=call.id,
            tool_name=call.name,
            arguments_delta=call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
        )
        for call in reply.calls
    ]
    return events


def _tool_call(call: Call) -> ToolCall:
    assert call.id is not None  # the script has numbered it
    if not isinstance(call.arguments, str):
        return ToolCall(call.id, call.name, dict(call.arguments))
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return ToolCall(call.id, call.name, arguments)
    # What Agent-RT's own providers do with arguments that are no JSON object.
    return ToolCall(call.id, call.name, {}, argument_error="tool arguments are not a JSON object")


def _usage(reply: Reply) -> ModelUsage | None:
    if reply.input_tokens is None and reply.output_tokens is None:
        return None
    return ModelUsage(
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        total_tokens=(reply.input_tokens or 0) + (reply.output_tokens or 0),
    )
