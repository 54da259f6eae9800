"""A model that answers from a script."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from agent_rt import (
    ContentPart,
    ModelMessage,
    ModelProvider,
    ModelRequest,
    StreamingModelProvider,
)

from openbox_agentrt.testing import (
    Call,
    CompleteOnlyProvider,
    ManualClock,
    Reply,
    ScriptedProvider,
    ScriptExhaustedError,
)


def request(text: str = "hello") -> Any:
    return ModelRequest(messages=[ModelMessage(role="user", content=(ContentPart(type="text", text=text),))])


async def events_of(provider: ScriptedProvider) -> list[Any]:
    return [event async for event in provider.stream(request())]


def test_scripted_provider_is_both_kinds_of_provider() -> None:
    """The loop decides by `isinstance` whether a provider can stream."""
    assert isinstance(ScriptedProvider(), ModelProvider)
    assert isinstance(ScriptedProvider(), StreamingModelProvider)


def test_complete_only_provider_cannot_stream() -> None:
    """The complete-only variant does not claim to stream."""
    assert isinstance(CompleteOnlyProvider(), ModelProvider)
    assert not isinstance(CompleteOnlyProvider(), StreamingModelProvider)


async def test_answers_come_in_order_and_requests_are_kept() -> None:
    """Each request takes the next step, and can be looked at later."""
    provider = ScriptedProvider("one", "two")

    texts = [(await provider.complete(request(q))).message.content[0].text for q in ("a", "b")]

    assert texts == ["one", "two"]
    assert [r.messages[0].content[0].text for r in provider.requests] == ["a", "b"]
    assert provider.remaining == 0


async def test_a_call_is_a_tool_call_with_a_fresh_id() -> None:
    """Tool calls without an id get one, and never the same twice."""
    provider = ScriptedProvider(
        Call(name="lookup", arguments={"q": 1}),
        Reply(calls=(Call(name="a"), Call(name="b", id="mine"), Call(name="c"))),
    )

    first = await provider.complete(request())
    second = await provider.complete(request())

    assert first.finish_reason == "tool_calls"
    assert [(c.id, c.name, c.arguments) for c in first.message.tool_calls] == [("call_1", "lookup", {"q": 1})]
    assert [c.id for c in second.message.tool_calls] == ["call_2", "mine", "call_3"]


@pytest.mark.parametrize(
    ("written", "arguments", "is_error"),
    [
        pytest.param('{"amount": 40}', {"amount": 40}, False, id="an object"),
        pytest.param("[40]", {}, True, id="a list"),
        pytest.param('{"amount":', {}, True, id="cut off"),
    ],
)
async def test_arguments_that_are_written_as_text(
    written: str, arguments: dict[str, int], is_error: bool
) -> None:
    """They are read as Agent-RT's own providers read them: only what is no JSON object is an error."""
    provider = ScriptedProvider(Call(name="pay", arguments=written))

    (call,) = (await provider.complete(request())).message.tool_calls

    assert call.arguments == arguments
    assert (call.argument_error is not None) is is_error


async def test_usage_is_reported() -> None:
    """Token counts of a reply arrive as usage; a reply without counts has none."""
    provider = ScriptedProvider(
        Reply(text="x", input_tokens=7, output_tokens=3), Reply(input_tokens=None, output_tokens=None)
    )

    usage = (await provider.complete(request())).usage

    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (7, 3, 10)
    assert (await provider.complete(request())).usage is None


async def test_a_stream_ends_with_the_completed_response() -> None:
    """Deltas joined are the text of the completed response, and the tool calls follow the text."""
    provider = ScriptedProvider(Reply(text="I will look", reasoning="hm", calls=(Call(name="lookup"),)))

    events = await events_of(provider)

    assert [e.type for e in events] == [
        "reasoning_delta",
        *["text_delta"] * 3,
        "tool_call_delta",
        "completed",
    ]
    assert "".join(e.text for e in events if e.type == "text_delta") == "I will look"
    assert events[-1].response.message.content[0].text == "I will look"
    assert events[-1].response.message.tool_calls[0].name == "lookup"


async def test_a_step_may_be_an_error() -> None:
    """An exception in the script is raised instead of an answer."""
    provider = ScriptedProvider(TimeoutError("slow"))

    with pytest.raises(TimeoutError, match="slow"):
        await provider.complete(request())


async def test_a_stream_may_fail_in_the_middle() -> None:
    """The error comes after as many parts as the script says, and the stream counts as closed."""
    provider = ScriptedProvider(Reply(text="a b c", error=OSError("cut"), error_after_chunks=2))
    stream = provider.stream(request())

    seen = [(await anext(stream)).text, (await anext(stream)).text]
    with pytest.raises(OSError, match="cut"):
        await anext(stream)

    assert seen == ["a", " b"]
    assert (provider.streams_opened, provider.streams_closed) == (1, 1)


async def test_a_stream_may_fail_at_its_very_end() -> None:
    """All parts arrive, but the stream fails instead of being completed."""
    provider = ScriptedProvider(Reply(text="a", error=OSError("cut"), error_after_chunks=1))
    stream = provider.stream(request())

    assert (await anext(stream)).text == "a"
    with pytest.raises(OSError, match="cut"):
        await anext(stream)


async def test_a_stream_that_is_left_early_counts_as_closed_once_closed() -> None:
    """`aclose` ends the stream."""
    provider = ScriptedProvider("a b c")
    stream: Any = provider.stream(request())
    await anext(stream)

    await stream.aclose()

    assert (provider.streams_opened, provider.streams_closed) == (1, 1)


async def test_delays_use_the_given_sleep() -> None:
    """No test has to wait for a slow model."""
    clock = ManualClock()
    provider = ScriptedProvider(Reply(text="a b", delay_seconds=3, chunk_delay_seconds=2), sleep=clock.sleep)

    await events_of(provider)

    assert clock.sleeps == [3, 2]


async def test_a_step_may_look_at_the_request() -> None:
    """A callable step gets the request, and `respond` answers when the steps are used up."""
    provider = ScriptedProvider(
        lambda r: f"first: {r.messages[0].content[0].text}", respond=lambda r: "again"
    )

    texts = [(await provider.complete(request("q"))).message.content[0].text for _ in range(3)]

    assert texts == ["first: q", "again", "again"]


async def test_an_exhausted_script_says_so() -> None:
    """A call that the script did not expect fails the test."""
    provider = ScriptedProvider("only")
    await provider.complete(request())

    with pytest.raises(ScriptExhaustedError, match="called 2 times, but the script has 1 answers"):
        await provider.complete(request())


async def test_broken_arguments_reach_the_loop_as_an_argument_error() -> None:
    """Arguments given as text are not parsed: the call arrives as one that must not run."""
    provider = ScriptedProvider(Call(name="lookup", arguments='{"q": '))

    call = (await provider.complete(request())).message.tool_calls[0]

    assert call.argument_error is not None


def test_script_exhausted_survives_pickling() -> None:
    """The error crosses process boundaries with its data."""
    error = pickle.loads(pickle.dumps(ScriptExhaustedError(calls=3, steps=2)))

    assert (error.calls, error.steps) == (3, 2)


def test_an_unknown_kind_of_step_is_refused() -> None:
    """A number is no answer."""
    step: Any = 3
    with pytest.raises(TypeError, match="not int"):
        ScriptedProvider(step)._script.next(None)
