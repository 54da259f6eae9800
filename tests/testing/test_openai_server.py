"""A model server that speaks the OpenAI protocol, and the clients that it is meant for."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import agent_rt
import httpx
import openai
import pytest
from agent_rt import AgentConfig, ContentPart, ModelMessage, ModelRequest, ModelSettings, ToolDefinition

from openbox_agentrt.testing import Call, ModelServerError, OpenAIServer, Reply


def request(text: str = "hello", tools: Any = ()) -> Any:
    message = ModelMessage(role="user", content=(ContentPart(type="text", text=text),))
    return ModelRequest(messages=[message], tools=tools)


@asynccontextmanager
async def provider_of(server: OpenAIServer, **environ: str) -> AsyncIterator[Any]:
    provider: Any = agent_rt.load_model(environ={**server.environ, **environ}, validate=False)
    try:
        yield provider
    finally:
        await provider.close()


async def complete(provider: Any, asked: Any) -> Any:
    return await provider.complete(asked)


async def stream(provider: Any, asked: Any) -> Any:
    events = [event async for event in provider.stream(asked)]
    assert events[-1].type == "completed"
    return events[-1].response


BOTH = pytest.mark.parametrize("ask", [complete, stream])
Ask = Callable[[Any, Any], Any]


@BOTH
async def test_text_and_usage(ask: Ask) -> None:
    """Agent-RT's own provider gets text, usage and the reason to stop, in one piece and streamed."""
    with OpenAIServer(Reply(text="Hello there, friend", input_tokens=7, output_tokens=3)) as server:
        async with provider_of(server) as provider:
            response = await ask(provider, request())

    assert response.message.content[0].text == "Hello there, friend"
    assert (response.usage.input_tokens, response.usage.total_tokens) == (7, 10)
    assert (response.model, response.finish_reason) == ("scripted-1", "stop")
    assert server.requests[0]["messages"] == [{"role": "user", "content": "hello"}]


@BOTH
async def test_tool_calls(ask: Ask) -> None:
    """Tool calls arrive whole, also when their arguments are streamed in parts."""
    calls = (Call(name="lookup", arguments={"id": "é", "n": [1, 2]}), Call(name="refund"))
    with OpenAIServer(Reply(text="Let me see.", calls=calls)) as server:
        async with provider_of(server) as provider:
            response = await ask(provider, request())

    assert [(c.id, c.name, c.arguments) for c in response.message.tool_calls] == [
        ("call_1", "lookup", {"id": "é", "n": [1, 2]}),
        ("call_2", "refund", {}),
    ]
    assert response.finish_reason == "tool_calls"


async def test_a_stream_arrives_in_parts() -> None:
    """Words come one by one."""
    with OpenAIServer("one two three") as server:
        async with provider_of(server) as provider:
            texts = [e.text async for e in provider.stream(request()) if e.type == "text_delta"]

    assert texts == ["one", " two", " three"]


@BOTH
async def test_websocket_is_declined(ask: Ask) -> None:
    """A provider that tries the websocket protocol first falls back to HTTP."""
    with OpenAIServer("over HTTP") as server:
        async with provider_of(server, OPENAI_WEBSOCKET="1") as provider:
            response = await ask(provider, request())

    assert response.message.content[0].text == "over HTTP"


@BOTH
async def test_errors_have_the_status_of_the_script(ask: Ask) -> None:
    """Agent-RT turns a 429 into its own error, with the time to wait."""
    with OpenAIServer(ModelServerError(429, retry_after=9)) as server:
        async with provider_of(server) as provider:
            with pytest.raises(agent_rt.RateLimitExceededError):
                await ask(provider, request())


async def test_other_exceptions_are_server_errors() -> None:
    """An exception in a script is a 500 that names it."""
    with OpenAIServer(ValueError("broken")) as server:
        async with provider_of(server) as provider:
            with pytest.raises(RuntimeError, match="HTTP 500"):
                await provider.complete(request())


async def test_an_exhausted_script_is_a_server_error() -> None:
    """A call that the script did not expect fails."""
    with OpenAIServer() as server:
        async with provider_of(server) as provider:
            with pytest.raises(RuntimeError, match="HTTP 500"):
                await provider.complete(request())


async def test_a_stream_may_break_off() -> None:
    """The connection ends after as many parts as the script says."""
    with OpenAIServer(Reply(text="a b c d", error=OSError("cut"), error_after_chunks=2)) as server:
        async with provider_of(server) as provider:
            events = provider.stream(request())
            seen = [(await anext(events)).text, (await anext(events)).text]
            with pytest.raises(Exception, match="peer closed connection"):
                await anext(events)

    assert seen == ["a", " b"]


async def test_a_stream_may_break_off_at_its_very_end() -> None:
    """All parts arrive, but not the end: the answer is not complete."""
    with OpenAIServer(Reply(text="a b", error=OSError("cut"), error_after_chunks=2)) as server:
        async with provider_of(server) as provider:
            events = provider.stream(request())
            seen = [(await anext(events)).text, (await anext(events)).text]
            with pytest.raises(Exception, match="peer closed connection"):
                await anext(events)

    assert seen == ["a", " b"]


@BOTH
async def test_delays_usage_and_reason_are_the_script_s(ask: Ask) -> None:
    """What a reply leaves out is left out, and a reason it gives is kept."""
    reply = Reply(
        text="a b",
        input_tokens=None,
        output_tokens=None,
        finish_reason="length",
        delay_seconds=0.01,
        chunk_delay_seconds=0.01,
    )
    with OpenAIServer(reply) as server:
        async with provider_of(server) as provider:
            response = await ask(provider, request())

    assert (response.usage, response.finish_reason) == (None, "length")
    assert server.remaining == 0


@BOTH
async def test_arguments_that_are_no_json_are_sent_as_they_are(ask: Ask) -> None:
    """Agent-RT marks the call as one that must not run."""
    with OpenAIServer(Call(name="lookup", arguments='{"id": ')) as server:
        async with provider_of(server) as provider:
            (call,) = (await ask(provider, request())).message.tool_calls

    assert call.argument_error is not None


def test_other_requests_get_an_error() -> None:
    """A path that is not there is a 404, a body that is not JSON a 400."""
    with OpenAIServer() as server, httpx.Client(headers={"Authorization": "Bearer sk-local"}) as client:
        missing = client.get(f"{server.base_url}/nothing")
        broken = client.post(f"{server.base_url}/chat/completions", content=b"{")

    assert (missing.status_code, broken.status_code) == (404, 400)
    assert "error" in missing.json()


async def test_a_wrong_key_is_turned_away() -> None:
    """The key is checked, as a real server does."""
    with OpenAIServer("x") as server:
        async with provider_of(server, OPENAI_API_KEY="sk-other") as provider:
            with pytest.raises(RuntimeError, match="HTTP 401"):
                await provider.complete(request())

    assert server.requests == []


async def test_models_are_listed() -> None:
    """What start-up validation asks for is there."""
    with OpenAIServer() as server:
        async with provider_of(server) as provider:
            assert [m.id for m in await provider.list_models()] == ["scripted-1"]
            assert (await provider.retrieve_model("scripted-1")).id == "scripted-1"


async def test_startup_validation_accepts_it() -> None:
    """`load_model` with validation talks to it through OpenAI's own client."""
    clients: list[openai.OpenAI] = []

    def remember(**options: Any) -> openai.OpenAI:
        clients.append(openai.OpenAI(**options))
        return clients[0]

    with OpenAIServer("hi") as server:
        # Agent-RT does not close the client that it validates with, so the test does.
        provider = agent_rt.load_model(environ=server.environ, openai_client_factory=remember)
        clients[0].close()

    assert provider.name == "openai"


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
async def test_a_whole_agent_run(streamed: bool) -> None:
    """An agent loop with a tool runs against it, end to end."""
    looked_up: list[Any] = []

    async def lookup(arguments: Any, token: Any) -> str:
        looked_up.append(dict(arguments))
        return "order 7: paid"

    async def listen(event: Any) -> None:
        """Makes the loop stream."""

    definition = ToolDefinition(
        name="lookup", description="Look an order up", input_schema={"type": "object"}
    )
    registry = agent_rt.ToolRegistry()
    registry.register(definition, handler=lookup)
    agent = AgentConfig(name="Support", instructions="Help.", model=ModelSettings(model="scripted-1"))
    with OpenAIServer(Call(name="lookup", arguments={"id": "7"}), "It was paid.") as server:
        async with provider_of(server) as provider:
            loop = agent_rt.AgentLoop(provider, tool_registry=registry)
            result = await loop.run(agent, request().messages, on_stream_event=listen if streamed else None)

    assert looked_up == [{"id": "7"}]
    assert result.final_response is not None
    assert result.final_response.message.content[0].text == "It was paid."
    assert [bool(r.get("stream")) for r in server.requests] == [streamed] * 2
    assert server.requests[1]["messages"][-1]["content"] == "order 7: paid"


def test_server_error_survives_pickling() -> None:
    """The error crosses process boundaries with its data."""
    error = pickle.loads(pickle.dumps(ModelServerError(429, "slow down", retry_after=3)))

    assert (error.status, error.message, error.retry_after) == (429, "slow down", 3)
