"""Streams: bound inside each step and nowhere else, and closed exactly once whoever stops reading."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_rt import (
    AgentLoop,
    AgentRunLimits,
    CancellationToken,
    ContentPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ToolCall,
)

from openbox_agentrt import (
    GovernanceBlockedError,
    UngovernedCallError,
    current_run,
)
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

CLOSED_EARLY = {"type": "AbandonedActivity", "message": "model stream closed before completion"}


def request(kit: Any, text: str = "hi") -> ModelRequest:
    return ModelRequest(messages=(kit.user(text),), model="model-1")


def texts(events: list[Any]) -> list[str]:
    return [event.text for event in events if event.type == "text_delta"]


async def read_all(stage: Any, stream: Any, seen: list[Any]) -> None:
    async with stage.governance.run_scope():
        async for event in stream:
            seen.append(event)


def on_completion(answer: Any) -> Any:
    """A policy that answers `answer` to the report of a model call."""
    return lambda event: answer if event["event_type"] == "ActivityCompleted" else None


async def test_a_stream_is_one_activity(make_stage: Any, kit: Any) -> None:
    """Its events arrive as they are, and Core hears of its start and its response."""
    stage = await make_stage()
    provider = stage.governance.wrap_provider(ScriptedProvider("one two three"))

    async with stage.governance.run_scope():
        events = [event async for event in provider.stream(request(kit))]

    assert texts(events) == ["one", " two", " three"]
    assert stage.completed("llm_call")["activity_output"]["completion"] == "one two three"


async def test_opening_a_stream_does_nothing(make_stage: Any, kit: Any) -> None:
    """As with an async generator, everything happens at the first step; `stream` itself is no coroutine."""
    stage = await make_stage()
    inner = ScriptedProvider("never said")

    async with stage.governance.run_scope():
        stream = stage.governance.wrap_provider(inner).stream(request(kit))
        assert hasattr(stream, "__anext__")

    assert inner.requests == []
    assert stage.events("ActivityStarted") == []


async def test_a_refused_stream_reaches_no_model(make_stage: Any, kit: Any) -> None:
    """The first step raises, and the next one does not ask again."""
    stage = await make_stage(lambda event: "BLOCK" if event["event_type"] == "ActivityStarted" else None)
    inner = ScriptedProvider("never said")
    stream = stage.governance.wrap_provider(inner).stream(request(kit))

    with pytest.raises(GovernanceBlockedError):
        async with stage.governance.run_scope():
            await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)

    assert inner.requests == []
    assert len(stage.events("ActivityStarted")) == 1


async def test_a_consumer_is_not_inside_the_activity(make_stage: Any, kit: Any) -> None:
    """Between two steps, what the consumer does belongs to the run and not to the model call."""
    stage = await make_stage()
    store = stage.governance.runtime.context_store
    inside: list[Any] = []

    class Spy(ScriptedProvider):
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            async for event in super().stream(request):
                inside.append(store.current_activity_context())
                yield event

    provider = stage.governance.wrap_provider(Spy("one two"))

    async with stage.governance.run_scope() as run:
        async for _ in provider.stream(request(kit)):
            assert store.current_activity_context() is None
            assert current_run() is run

    (started,) = stage.events("ActivityStarted")
    assert {context.activity_id for context in inside} == {started["activity_id"]}


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, id="no limits"),
        pytest.param({"limits": AgentRunLimits(timeout_seconds=30)}, id="run timeout"),
        pytest.param({"cancellation_token": None}, id="token"),
    ],
)
async def test_streaming_runs_work_in_every_mode(make_stage: Any, kit: Any, limits: dict[str, Any]) -> None:
    """With a limit, Agent-RT takes each step in a task of its own; nothing is bound across steps."""
    stage = await make_stage()
    if "cancellation_token" in limits:
        limits = {"cancellation_token": CancellationToken()}
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider("one two three")))
    seen: list[Any] = []

    async def on_event(event: Any) -> None:
        seen.append(event)

    result = await loop.run_streaming(kit.agent(), [kit.user("hi")], on_event, **limits)

    assert result.termination_reason == "completed"
    assert texts(seen) == ["one", " two", " three"]
    assert stage.completed("llm_call")["activity_output"]["completion"] == "one two three"


async def test_a_consumer_that_breaks_leaves_nothing_open(make_stage: Any, kit: Any) -> None:
    """The row is closed as left early, and the provider's stream too, when the run ends at the latest."""
    stage = await make_stage()
    inner = ScriptedProvider("one two three")

    async with stage.governance.run_scope():
        async for _ in stage.governance.wrap_provider(inner).stream(request(kit)):
            break

    assert stage.completed("llm_call")["error"] == CLOSED_EARLY
    assert inner.streams_opened == inner.streams_closed == 1


async def test_closing_a_stream_closes_its_row_at_once(make_stage: Any, kit: Any) -> None:
    """`aclose` closes row and provider stream; reading on finds the end."""
    stage = await make_stage()
    inner = ScriptedProvider("one two three")

    async with stage.governance.run_scope() as run:
        stream = stage.governance.wrap_provider(inner).stream(request(kit))
        await anext(stream)
        await stream.aclose()
        await run.reports.settle()
        assert inner.streams_closed == 1
        assert stage.completed("llm_call")["error"] == CLOSED_EARLY
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_closing_from_another_task_waits_for_the_step(make_stage: Any, kit: Any) -> None:
    """The provider's generator cannot be closed while it runs; it is closed when its step is over."""
    stage = await make_stage()
    go_on = asyncio.Event()
    closed: list[bool] = []

    class Slow(ScriptedProvider):
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            try:
                await go_on.wait()
                yield ModelStreamEvent(type="text_delta", text="late")
            finally:
                closed.append(True)

    async with stage.governance.run_scope():
        stream = stage.governance.wrap_provider(Slow()).stream(request(kit))
        step = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.01)
        await stream.aclose()
        assert not closed
        go_on.set()
        await step
        assert closed

    assert stage.completed("llm_call")["error"] == CLOSED_EARLY


async def test_an_error_of_the_consumer_closes_the_stream(make_stage: Any, kit: Any) -> None:
    """Agent-RT closes no iterator when its callback raises; the run does, also if the error is kept."""
    stage = await make_stage()
    inner = ScriptedProvider("one two three")
    loop = stage.governance.govern_loop(AgentLoop(inner))

    async def on_event(event: Any) -> None:
        raise ValueError("consumer")

    with pytest.raises(ValueError, match="consumer") as kept:
        await loop.run_streaming(kit.agent(), [kit.user("hi")], on_event)

    assert kept.value.__traceback__ is not None
    assert inner.streams_opened == inner.streams_closed == 1
    assert stage.completed("llm_call")["error"] == {"type": "ValueError", "message": "consumer"}


async def test_a_stream_that_fails_closes_its_row(make_stage: Any, kit: Any) -> None:
    """The provider's error is raised as it is."""
    stage = await make_stage()
    provider = stage.governance.wrap_provider(
        ScriptedProvider(Reply(text="one two", error=ConnectionError("gone"), error_after_chunks=1))
    )

    with pytest.raises(ConnectionError, match="gone"):
        await read_all(stage, provider.stream(request(kit)), [])

    assert stage.completed("llm_call")["error"]["type"] == "ConnectionError"


async def test_a_stream_without_a_completed_event(make_stage: Any, kit: Any) -> None:
    """It ends for the consumer as it did before; Core hears that there was no response."""
    stage = await make_stage()

    class Short(ScriptedProvider):
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            yield ModelStreamEvent(type="text_delta", text="one")

    async with stage.governance.run_scope():
        events = [e async for e in stage.governance.wrap_provider(Short()).stream(request(kit))]

    assert texts(events) == ["one"]
    assert (
        stage.completed("llm_call")["error"]["message"] == "model stream ended without a completed response"
    )


async def test_stopping_at_the_completed_event_is_not_early(make_stage: Any, kit: Any) -> None:
    """Some consumers do not read on after the response; the call has completed then."""
    stage = await make_stage()
    inner = ScriptedProvider("one two")

    async with stage.governance.run_scope():
        async for event in stage.governance.wrap_provider(inner).stream(request(kit)):
            if event.type == "completed":
                break

    assert stage.completed("llm_call")["status"] == "completed"
    assert inner.streams_closed == 1


async def test_a_forgotten_stream_is_closed_by_the_run(make_stage: Any, kit: Any) -> None:
    """Dropping the last reference leaves nothing to chance: the run still has it."""
    stage = await make_stage()
    inner = ScriptedProvider("one two three")

    async with stage.governance.run_scope():
        stream = stage.governance.wrap_provider(inner).stream(request(kit))
        await anext(stream)
        del stream
        gc.collect()

    assert inner.streams_closed == 1
    assert stage.completed("llm_call")["error"] == CLOSED_EARLY


async def test_a_deadline_between_steps_closes_the_stream(make_stage: Any, kit: Any) -> None:
    """A class iterator is never told that nobody comes back; the run tells it."""
    stage = await make_stage()
    inner = ScriptedProvider("one two three")
    loop = stage.governance.govern_loop(AgentLoop(inner))

    async def on_event(event: Any) -> None:
        await asyncio.sleep(0.1)

    result = await loop.run_streaming(
        kit.agent(), [kit.user("hi")], on_event, limits=AgentRunLimits(timeout_seconds=0.05)
    )

    assert result.termination_reason == "timeout"
    assert inner.streams_opened == inner.streams_closed == 1
    assert stage.completed("llm_call")["status"] == "failed"
    assert stage.events("WorkflowCompleted")[0]["status"] == "timeout"


async def test_a_step_cannot_be_taken_twice_at_once(make_stage: Any, kit: Any) -> None:
    """Two readers of one stream are a mistake, as with an async generator."""
    stage = await make_stage()

    async with stage.governance.run_scope():
        stream = stage.governance.wrap_provider(
            ScriptedProvider(Reply(text="a b", delay_seconds=0.05))
        ).stream(request(kit))
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError, match="two steps at once"):
            await anext(stream)
        await first


async def test_a_stream_outlives_no_run(make_stage: Any, kit: Any) -> None:
    """Reading on after the run has ended finds the end; starting to read is refused."""
    stage = await make_stage()
    provider = stage.governance.wrap_provider(ScriptedProvider("one two", "three"))

    async with stage.governance.run_scope():
        begun = provider.stream(request(kit))
        untouched = provider.stream(request(kit))
        await anext(begun)

    with pytest.raises(StopAsyncIteration):
        await anext(begun)
    with pytest.raises(UngovernedCallError):
        await anext(untouched)


@pytest.mark.parametrize("closing", ["raises", "hangs"])
async def test_a_provider_that_cannot_close_does_not_hold_the_run(
    make_stage: Any, kit: Any, closing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with its own outcome."""
    monkeypatch.setattr("openbox_agentrt._run.close.STREAM_CLOSE_SECONDS", 0.05)
    stage = await make_stage()

    class Stubborn:
        name = "stubborn"

        async def complete(self, request: Any) -> Any:
            raise NotImplementedError

        def stream(self, request: Any) -> Any:
            return self

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> Any:
            return ModelStreamEvent(type="text_delta", text="again")

        async def aclose(self) -> None:
            if closing == "raises":
                raise OSError("cannot close")
            await asyncio.Event().wait()

    async with stage.governance.run_scope() as run:
        async for _ in stage.governance.wrap_provider(Stubborn()).stream(request(kit)):
            break
        run.result = "fine"

    assert stage.events("WorkflowCompleted")[0]["workflow_output"]["result"] == "fine"


@pytest.mark.parametrize("decision", ["BLOCK", "HALT"])
async def test_a_held_stream_hands_nothing_on_that_is_refused(
    make_stage: Any, kit: Any, decision: str
) -> None:
    """With ``outputs="enforce"``, a verdict on the response counts, and the stream ends as streams do."""
    stage = await make_stage(on_completion({"decision": decision, "reason": "no"}), outputs="enforce")
    provider = stage.governance.wrap_provider(
        ScriptedProvider(Reply(text="one two", calls=(Call(name="a"),)))
    )
    seen: list[Any] = []

    await read_all(stage, provider.stream(request(kit)), seen)

    assert [event.type for event in seen] == ["text_delta", "completed"]
    assert texts(seen) == ["the output is withheld by policy"]
    assert not seen[-1].response.message.tool_calls
    assert seen[-1].response.finish_reason == "content_filter"


async def test_a_held_stream_without_a_response_hands_nothing_on(make_stage: Any, kit: Any) -> None:
    """Nobody can judge a response that did not come; what was spoken until then was not judged either."""

    class Broken:
        name = "broken"

        async def complete(self, request: Any) -> Any:
            raise NotImplementedError

        async def stream(self, request: Any) -> Any:
            yield ModelStreamEvent(type="text_delta", text="a secret")

    stage = await make_stage(outputs="enforce")

    async with stage.governance.run_scope():
        stream = stage.governance.wrap_provider(Broken()).stream(request(kit))
        assert [event async for event in stream] == []

    assert stage.completed("llm_call")["status"] == "failed"


SAID = ModelResponse(
    ModelMessage(
        "assistant", (ContentPart("text", "fine"),), tool_calls=(ToolCall("1", "look", {"at": "me"}),)
    ),
    finish_reason="stop",
)
OTHER = ModelResponse(ModelMessage("assistant", (ContentPart("text", "a secret"),)), finish_reason="stop")
DONE = ModelStreamEvent("completed", response=SAID)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([ModelStreamEvent("text_delta", text="a secret"), DONE], id="another text"),
        pytest.param([DONE, ModelStreamEvent("text_delta", text="a secret")], id="a text behind it"),
        pytest.param([ModelStreamEvent("completed", response=OTHER), DONE], id="another response"),
        pytest.param([ModelStreamEvent("text_delta", text="fine", response=OTHER), DONE], id="one beside it"),
        pytest.param([ModelStreamEvent("status", status="busy", text="a secret"), DONE], id="a status"),
        pytest.param(
            [
                ModelStreamEvent("text_delta", text="fine"),
                ModelStreamEvent(
                    "tool_call_delta",
                    tool_call_id="1",
                    tool_name="look",
                    arguments_delta='{"at": "a secret"}',
                ),
                DONE,
            ],
            id="other arguments",
        ),
        pytest.param(
            [
                ModelStreamEvent("text_delta", text="fine"),
                ModelStreamEvent("tool_call_delta", tool_call_id="2", tool_name="a secret"),
                DONE,
            ],
            id="another call",
        ),
    ],
)
async def test_a_held_stream_says_what_was_judged(make_stage: Any, kit: Any, events: list[Any]) -> None:
    """Core is told the response. What a provider streams beside it has been judged by nobody."""

    class Talkative:
        name = "talkative"

        async def complete(self, request: Any) -> Any:
            raise NotImplementedError

        async def stream(self, request: Any) -> Any:
            for event in events:
                yield event

    stage = await make_stage(outputs="enforce")

    async with stage.governance.run_scope():
        stream = stage.governance.wrap_provider(Talkative()).stream(request(kit))
        seen = [event async for event in stream]

    assert "a secret" not in repr(seen)
    assert texts(seen) == ["fine"]
    assert [event.arguments_delta for event in seen if event.type == "tool_call_delta"] == ['{"at": "me"}']
    assert seen[-1].response is SAID


async def test_a_held_stream_that_passes_is_whole(make_stage: Any, kit: Any) -> None:
    """All events come, in order, and Core was told before the first."""
    stage = await make_stage(buffer_streams=True)
    provider = stage.governance.wrap_provider(ScriptedProvider("one two three"))

    async with stage.governance.run_scope():
        stream = provider.stream(request(kit))
        first = await anext(stream)
        assert stage.completed("llm_call")["status"] == "completed"
        rest = [event async for event in stream]

    assert texts([first, *rest]) == ["one", " two", " three"]
    assert rest[-1].type == "completed"


async def test_a_held_stream_is_redacted_whole(make_stage: Any, kit: Any) -> None:
    """The words that are handed on are those of the redacted response."""

    def guard(event: dict[str, Any]) -> Any:
        if event["event_type"] == "ActivityCompleted":
            return {"validation_passed": True, "redacted_input": {"completion": "call [hidden]"}}
        return None

    stage = await make_stage(core=LocalCore(guardrails=guard), redact_outputs=True)
    provider = stage.governance.wrap_provider(ScriptedProvider("call 555-0100"))

    async with stage.governance.run_scope():
        events = [event async for event in provider.stream(request(kit))]

    assert texts(events) == ["call [hidden]"]
    assert events[-1].response.message.content[0].text == "call [hidden]"


async def test_a_constrained_stream_is_read_inside_its_guard(make_stage: Any, kit: Any) -> None:
    """A context manager cannot stay open across steps in different tasks: the stream is held inside it."""
    from contextlib import contextmanager

    log: list[str] = []

    @contextmanager
    def guard(_: Any) -> Any:
        log.append("in")
        yield
        log.append("out")

    stage = await make_stage(
        lambda e: (
            {"decision": "CONSTRAIN", "constraints": ["c"]} if e["event_type"] == "ActivityStarted" else None
        ),
        constraint_handlers={"c": guard},
    )

    def say(_: Any) -> str:
        log.append("model")
        return "one two"

    inner = ScriptedProvider(say)

    async with stage.governance.run_scope():
        events = [event async for event in stage.governance.wrap_provider(inner).stream(request(kit))]

    assert log == ["in", "model", "out"]
    assert texts(events) == ["one", " two"]
