"""A no to an output: the same answer has the same effect on every path."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from agent_rt import (
    AgentLoop,
    AgentOutputRequirements,
    ContentPart,
    InMemoryIdempotencyStore,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    StructuredOutputValidationError,
)

from openbox_agentrt import GovernanceBlockedError, GovernanceHaltError, GovernanceOptions, OptionError
from openbox_agentrt.decision import Verdict
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

SECRET = "sesame-4711-0042"
WITHHELD = "the output is withheld by policy"

BLOCK = {"decision": "BLOCK", "reason": "no"}
HALT = {"decision": "HALT", "reason": "no"}
FAILED_GUARDRAILS = {
    "decision": "CONTINUE",
    "guardrails_result": {
        "input_type": "activity_output",
        "validation_passed": False,
        "reasons": [{"type": "t", "field": "f", "reason": "no"}],
    },
}
UNFIT = {
    "decision": "CONTINUE",
    "guardrails_result": {"validation_passed": True, "redacted_input": [1, 2, 3, 4]},
}


def refusing(answer: Any) -> Any:
    """A policy that says `answer` to every end that shows the secret."""

    def policy(event: Mapping[str, Any]) -> Any:
        shown = event["event_type"] == "ActivityCompleted" and SECRET in repr(event.get("activity_output"))
        return answer if shown else None

    return policy


async def tool_of_a_loop(stage: Any, kit: Any) -> Any:
    """Give what the model reads of a tool's result."""
    model = ScriptedProvider(Call(name="look"), "done")
    loop = AgentLoop(model, tool_registry=kit.registry({"look": lambda: SECRET}))
    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])
    return model.requests[1].messages


async def tool_of_an_executor(stage: Any, kit: Any) -> Any:
    """Give what an executor returns."""

    class Executor:
        async def execute(self, call: Any, token: Any = None) -> Any:
            return SECRET

    async with stage.governance.run_scope():
        return await stage.governance.wrap_tool_executor(Executor()).execute(kit.call("look"))


async def tool_that_says_it_failed(stage: Any, kit: Any) -> Any:
    """Give what a tool returns as its failure: somebody reads that as well."""
    registry = kit.registry({"look": lambda: {"isError": True, "content": SECRET}})
    async with stage.governance.run_scope():
        return await stage.governance.wrap_tool_registry(registry).execute(kit.call("look"))


async def answer_of_a_model(stage: Any, kit: Any) -> Any:
    """Give the answer of a model."""
    provider = stage.governance.wrap_provider(ScriptedProvider(SECRET))
    async with stage.governance.run_scope():
        return await provider.complete(ModelRequest(messages=(kit.user("go"),), model="m"))


async def streamed_answer(stage: Any, kit: Any) -> Any:
    """Give all that is streamed of an answer."""
    provider = stage.governance.wrap_provider(ScriptedProvider(SECRET))
    async with stage.governance.run_scope():
        events = [e async for e in provider.stream(ModelRequest(messages=(kit.user("go"),), model="m"))]
    return events, "".join(event.text or "" for event in events)


async def streamed_reasoning(stage: Any, kit: Any) -> Any:
    """Give all that is streamed of an answer whose reasoning has the secret."""
    provider = stage.governance.wrap_provider(ScriptedProvider(Reply(text="fine", reasoning=SECRET)))
    async with stage.governance.run_scope():
        events = [e async for e in provider.stream(ModelRequest(messages=(kit.user("go"),), model="m"))]
    return events, "".join(event.text or "" for event in events)


async def structured_answer(stage: Any, kit: Any) -> Any:
    """Give an answer that is JSON, and no text."""

    class Structured:
        name = "structured"

        async def complete(self, request: Any) -> Any:
            parts = (ContentPart("json", data={"code": SECRET}),)
            return ModelResponse(ModelMessage("assistant", parts), finish_reason="stop")

    async with stage.governance.run_scope():
        provider = stage.governance.wrap_provider(Structured())
        return await provider.complete(ModelRequest(messages=(kit.user("go"),), model="m"))


async def document_in_an_answer(stage: Any, kit: Any) -> Any:
    """Give an answer with a text file in it, beside a text."""

    class Writing:
        name = "writing"

        async def complete(self, request: Any) -> Any:
            file = ContentPart("file", data=SECRET, mime_type="text/plain")
            parts = (ContentPart("text", "Here it is."), file)
            return ModelResponse(ModelMessage("assistant", parts), finish_reason="stop")

    async with stage.governance.run_scope():
        provider = stage.governance.wrap_provider(Writing())
        return await provider.complete(ModelRequest(messages=(kit.user("go"),), model="m"))


async def call_in_an_answer(stage: Any, kit: Any) -> Any:
    """Give an answer that asks for a tool."""
    reply = Reply(calls=(Call(name="look", arguments={"code": SECRET}),))
    async with stage.governance.run_scope():
        provider = stage.governance.wrap_provider(ScriptedProvider(reply))
        return await provider.complete(ModelRequest(messages=(kit.user("go"),), model="m"))


async def own_activity(stage: Any, kit: Any) -> Any:
    """Give what is left in a user's own activity."""
    async with stage.governance.run_scope():
        async with stage.governance.activity("look", [1]) as activity:
            activity.output = SECRET
        assert activity.withheld
        return activity.output


async def agent_as_tool(stage: Any, kit: Any) -> Any:
    """Give what the outer model reads of an agent that is its tool."""
    inner = stage.governance.govern_loop(AgentLoop(ScriptedProvider(SECRET)))

    async def ask() -> Any:
        result = await inner.run(kit.agent("Inner"), [kit.user("go")])
        return result.final_response.message.content[0].text

    model = ScriptedProvider(Call(name="ask"), "done")
    loop = AgentLoop(model, tool_registry=kit.registry({"ask": ask}))
    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])
    return model.requests[1].messages


PATHS = [
    tool_of_a_loop,
    tool_of_an_executor,
    tool_that_says_it_failed,
    answer_of_a_model,
    streamed_answer,
    streamed_reasoning,
    structured_answer,
    document_in_an_answer,
    call_in_an_answer,
    own_activity,
    agent_as_tool,
]
Path = Callable[[Any, Any], Awaitable[Any]]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(BLOCK, id="block"),
        pytest.param(FAILED_GUARDRAILS, id="failed guardrails"),
        pytest.param(UNFIT, id="a redaction that does not fit"),
    ],
)
async def test_what_is_refused_is_seen_by_nobody(make_stage: Any, kit: Any, path: Path, answer: Any) -> None:
    """It is withheld from the model and from the caller, on record, and the run goes on."""
    decisions: list[Any] = []
    stage = await make_stage(
        core=LocalCore(refusing(answer), guardrails=False), outputs="enforce", on_decision=decisions.append
    )

    seen = await path(stage, kit)

    assert SECRET not in repr(seen)
    refused = [decision for decision in decisions if decision.verdict is Verdict.BLOCK]
    assert len(refused) == 1
    assert refused[0].source == "core"
    assert refused[0].reason


@pytest.mark.parametrize("path", [path for path in PATHS if path not in (tool_of_a_loop, agent_as_tool)])
async def test_a_halt_withholds_it_too(make_stage: Any, kit: Any, path: Path) -> None:
    """What has been done stands, and nobody sees what it gave."""
    stage = await make_stage(core=LocalCore(refusing(HALT), guardrails=False), outputs="enforce")

    assert SECRET not in repr(await path(stage, kit))


@pytest.mark.parametrize("path", [tool_of_a_loop, agent_as_tool])
async def test_a_halt_starts_nothing_more(make_stage: Any, kit: Any, path: Path) -> None:
    """The model is not called with it, nor with anything else."""
    stage = await make_stage(core=LocalCore(refusing(HALT), guardrails=False), outputs="enforce")

    with pytest.raises(GovernanceHaltError):
        await path(stage, kit)


@pytest.mark.parametrize("path", [path for path in PATHS if path is not own_activity])
async def test_nothing_is_withheld_unless_that_is_asked_for(make_stage: Any, kit: Any, path: Path) -> None:
    """By default, what Core says to a report changes nothing."""
    stage = await make_stage(core=LocalCore(refusing(BLOCK), guardrails=False))

    assert SECRET in repr(await path(stage, kit))


@pytest.mark.parametrize("said", ["it worked", {"isError": True}], ids=["done", "failed"])
@pytest.mark.parametrize("on_api_error", ["fail_open", "fail_closed"])
async def test_nothing_hides_behind_the_size_of_an_output(
    make_stage: Any, kit: Any, said: Any, on_api_error: str
) -> None:
    """Of what is too large, Core sees a part. The rest has not been judged, so nobody sees any of it."""
    stage = await make_stage(outputs="enforce", max_payload_bytes=2_000, on_api_error=on_api_error)
    output = {"said": said, "isError": isinstance(said, dict), "page": "x" * 4_000 + SECRET}
    registry = stage.governance.wrap_tool_registry(kit.registry({"look": lambda: output}))

    async with stage.governance.run_scope() as run:
        seen = await registry.execute(kit.call("look"))

    assert seen["error"]["message"] == WITHHELD
    assert run.decisions[-1].reason == "core could be shown only a part of the output"


@pytest.mark.parametrize("off", ["send_llm_end_event", "send_tool_end_event"])
def test_what_core_is_not_told_of_cannot_be_enforced(off: str) -> None:
    """Whoever asks for both has a mistake in there, and hears of it before anything runs."""
    switched_off: dict[str, Any] = {off: False}

    with pytest.raises(OptionError, match=off):
        GovernanceOptions(core="local", outputs="enforce", **switched_off)


@pytest.mark.parametrize("older", ["redact_outputs", "buffer_streams"])
async def test_older_spellings_mean_the_same(make_stage: Any, kit: Any, older: str) -> None:
    """Each of the two switches all of it on."""
    stage = await make_stage(core=LocalCore(refusing(BLOCK), guardrails=False), **{older: True})

    assert SECRET not in repr(await streamed_answer(stage, kit))
    assert SECRET not in repr(await tool_of_an_executor(stage, kit))


async def test_a_withheld_result_is_not_fetched_again(make_stage: Any, kit: Any) -> None:
    """The tool has run. An idempotency store remembers that, and the same call does not run it again."""
    stage = await make_stage(core=LocalCore(refusing(BLOCK), guardrails=False), outputs="enforce")
    ran: list[str] = []

    def look() -> str:
        ran.append("it ran")
        return SECRET

    loop = stage.governance.govern_loop(
        AgentLoop(
            ScriptedProvider(Call(id="1", name="look"), Call(id="1", name="look"), "done"),
            tool_registry=kit.registry({"look": look}),
            idempotency_store=InMemoryIdempotencyStore(),
        )
    )

    result = await loop.run(kit.agent(), [kit.user("go")], task_id="task")

    assert ran == ["it ran"]
    assert [error["message"] for error in kit.tool_errors(result)] == [WITHHELD, WITHHELD]


async def test_what_was_redacted_before_is_no_reason_to_withhold(make_stage: Any, kit: Any) -> None:
    """A tool call in an answer quotes what the prompt was redacted of: it is redacted too, and runs."""
    reached: list[Any] = []

    def hide(event: dict[str, Any]) -> Any:
        if event["event_type"] != "ActivityStarted" or event["activity_type"] != "llm_call":
            return None
        prompt = event["activity_input"][0]["prompt"]
        return {"validation_passed": True, "redacted_input": [{"prompt": prompt.replace(SECRET, "[hidden]")}]}

    stage = await make_stage(core=LocalCore(guardrails=hide), outputs="enforce")
    loop = AgentLoop(
        ScriptedProvider(Call(name="look", arguments={"code": SECRET}), "done"),
        tool_registry=kit.registry({"look": lambda code: reached.append(code)}),
    )

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user(f"use {SECRET} now")])

    assert reached == ["[hidden]"]
    assert result.termination_reason == "completed"


def fails(*_: Any, **__: Any) -> Any:
    """A piece of work whose error says the secret, or brings it along."""
    raise RuntimeError(f"could not look at {SECRET}")


def fails_because(*_: Any, **__: Any) -> Any:
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise RuntimeError("could not look") from error


def fails_while(*_: Any, **__: Any) -> Any:
    try:
        raise KeyError(SECRET)
    except KeyError:
        raise RuntimeError("could not look") from None


def fails_with_a_note(*_: Any, **__: Any) -> Any:
    error = RuntimeError("could not look")
    error.add_note(SECRET)
    raise error


def fails_in_a_group(*_: Any, **__: Any) -> Any:
    raise ExceptionGroup("could not look", [RuntimeError("so"), ValueError(SECRET)])


FAILURES = [fails, fails_because, fails_while, fails_with_a_note, fails_in_a_group]
Fail = Callable[..., Any]


class Failing:
    """A model that fails, whole and streamed."""

    name = "failing"

    def __init__(self, fail: Fail) -> None:
        self.fail = fail

    async def complete(self, request: Any) -> Any:
        self.fail()

    async def stream(self, request: Any) -> Any:
        self.fail()
        yield


async def failing_tool(stage: Any, kit: Any, fail: Fail) -> None:
    """A tool of a registry."""
    async with stage.governance.run_scope():
        await stage.governance.wrap_tool_registry(kit.registry({"look": fail})).execute(kit.call("look"))


async def failing_tool_of_a_loop(stage: Any, kit: Any, fail: Fail) -> None:
    """A tool of a whole run."""
    loop = AgentLoop(ScriptedProvider(Call(name="look"), "done"), tool_registry=kit.registry({"look": fail}))
    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])


async def failing_executor(stage: Any, kit: Any, fail: Fail) -> None:
    """A tool of an executor."""

    class Executor:
        async def execute(self, call: Any, token: Any = None) -> Any:
            fail()

    async with stage.governance.run_scope():
        await stage.governance.wrap_tool_executor(Executor()).execute(kit.call("look"))


async def failing_model(stage: Any, kit: Any, fail: Fail) -> None:
    """A model call."""
    async with stage.governance.run_scope():
        provider = stage.governance.wrap_provider(Failing(fail))
        await provider.complete(ModelRequest(messages=(kit.user("go"),), model="m"))


async def failing_stream(stage: Any, kit: Any, fail: Fail) -> None:
    """A streamed model call."""
    async with stage.governance.run_scope():
        provider = stage.governance.wrap_provider(Failing(fail))
        async for _ in provider.stream(ModelRequest(messages=(kit.user("go"),), model="m")):
            pass


async def failing_activity(stage: Any, kit: Any, fail: Fail) -> None:
    """A user's own activity."""
    async with stage.governance.run_scope(), stage.governance.activity("look", [1]):
        fail()


async def failing_function(stage: Any, kit: Any, fail: Fail) -> None:
    """A function behind `guard`."""

    async def look() -> None:
        fail()

    async with stage.governance.run_scope():
        await guard(None, "look", look, governance=stage.governance)()


async def failing_agent(stage: Any, kit: Any, fail: Fail) -> None:
    """An agent that is a tool, and whose tool fails."""
    model = ScriptedProvider(Call(name="look"), "done")
    inner = stage.governance.govern_loop(AgentLoop(model, tool_registry=kit.registry({"look": fail})))

    async def ask() -> Any:
        await inner.run(kit.agent("Inner"), [kit.user("go")])

    loop = AgentLoop(ScriptedProvider(Call(name="ask"), "done"), tool_registry=kit.registry({"ask": ask}))
    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])


FAILING = [
    failing_tool,
    failing_tool_of_a_loop,
    failing_executor,
    failing_model,
    failing_stream,
    failing_activity,
    failing_function,
    failing_agent,
]


def said_by(error: BaseException) -> str:
    """All that can be read off an error by whoever catches it."""
    return "".join(traceback.format_exception(error)) + repr(_chain(error))


def _chain(error: BaseException | None) -> list[str]:
    if error is None:
        return []
    return [
        repr(error),
        repr(getattr(error, "__notes__", "")),
        *_chain(error.__cause__),
        *_chain(error.__context__),
    ]


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.__name__)
@pytest.mark.parametrize("fail", FAILURES, ids=lambda fail: fail.__name__)
async def test_an_error_that_core_refuses_is_read_by_nobody(
    make_stage: Any, kit: Any, path: Any, fail: Fail
) -> None:
    """What a piece of work says when it fails is an output like what it returns."""
    decisions: list[Any] = []
    stage = await make_stage(
        core=LocalCore(refusing(BLOCK), guardrails=False), outputs="enforce", on_decision=decisions.append
    )

    with pytest.raises(GovernanceBlockedError, match=WITHHELD) as caught:
        await path(stage, kit, fail)

    assert SECRET not in said_by(caught.value)
    assert caught.value.ran
    assert [decision.verdict for decision in decisions].count(Verdict.BLOCK) == 1


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.__name__)
async def test_an_error_that_core_redacts_is_read_by_nobody(make_stage: Any, kit: Any, path: Any) -> None:
    """It cannot be edited."""

    def hide(event: Mapping[str, Any]) -> Any:
        output = event.get("activity_output")
        if event["event_type"] != "ActivityCompleted" or SECRET not in repr(output):
            return None
        assert isinstance(output, Mapping)
        clean = {**output, "message": "could not look at [hidden]"}
        return {"input_type": "activity_output", "validation_passed": True, "redacted_input": clean}

    stage = await make_stage(core=LocalCore(guardrails=hide), outputs="enforce")

    with pytest.raises(GovernanceBlockedError, match=WITHHELD) as caught:
        await path(stage, kit, fails)

    assert SECRET not in said_by(caught.value)


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.__name__)
@pytest.mark.parametrize("outputs", ["off", "enforce"])
async def test_an_error_that_nobody_refuses_stays_what_it_is(
    make_stage: Any, kit: Any, path: Any, outputs: str
) -> None:
    """Also where outputs are not judged, whatever Core says of it."""
    stage = await make_stage(refusing(BLOCK) if outputs == "off" else None, outputs=outputs)

    with pytest.raises(RuntimeError, match=SECRET):
        await path(stage, kit, fails)


async def test_a_halt_of_the_work_does_not_bring_its_error_along(make_stage: Any, kit: Any) -> None:
    """The halt is told, and what the work made of it has not been judged."""

    def halting(event: Mapping[str, Any]) -> Any:
        started = event["event_type"] == "ActivityStarted"
        return HALT if started and event["activity_type"] == "inside" else None

    stage = await make_stage(halting, outputs="enforce")

    async def look() -> None:
        try:
            async with stage.governance.activity("inside", [1]):
                pass
        except GovernanceHaltError:
            fails()

    with pytest.raises(GovernanceHaltError) as caught:
        await failing_tool(stage, kit, look)

    assert SECRET not in said_by(caught.value)


def says_no(event: Mapping[str, Any]) -> Any:
    """Guardrails that take the braces out of an answer, which is JSON no more."""
    output = event.get("activity_output")
    if event["event_type"] != "ActivityCompleted" or not isinstance(output, Mapping):
        return None
    clean = {**output, "completion": "no"}
    return {"input_type": "activity_output", "validation_passed": True, "redacted_input": clean}


async def test_a_large_output_that_core_saw_whole_is_redacted(make_stage: Any, kit: Any) -> None:
    """A higher cap holds for what takes an output's place as well."""
    long = "x" * 1_100_000

    def hides(event: Mapping[str, Any]) -> Any:
        if event["event_type"] != "ActivityCompleted" or event["activity_type"] != "look":
            return None
        clean = event["activity_output"].replace(SECRET, "[hidden]")
        return {"input_type": "activity_output", "validation_passed": True, "redacted_input": clean}

    stage = await make_stage(core=LocalCore(guardrails=hides), outputs="enforce", max_payload_bytes=2_000_000)

    async with stage.governance.run_scope():
        registry = stage.governance.wrap_tool_registry(kit.registry({"look": lambda: long + SECRET}))
        seen = await registry.execute(kit.call("look"))

    assert seen == f"{long}[hidden]"


@pytest.mark.parametrize("repairs", [0, 1])
@pytest.mark.parametrize(
    ("core", "said"),
    [
        pytest.param(lambda: LocalCore(refusing(BLOCK), guardrails=False), "is withheld", id="withheld"),
        pytest.param(lambda: LocalCore(guardrails=says_no), "as it was redacted", id="redacted"),
    ],
)
async def test_structured_output_that_may_not_be_seen_is_no_parsing_error(
    make_stage: Any, kit: Any, core: Any, said: str, repairs: int
) -> None:
    """The model gave what it had to: it is governance that ends the run."""
    stage = await make_stage(core=core(), outputs="enforce")
    agent = kit.agent(output=AgentOutputRequirements("json", max_repair_attempts=repairs))
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider(*[f'{{"code": "{SECRET}"}}'] * 2)))

    with pytest.raises(GovernanceBlockedError, match=said) as caught:
        await loop.run(agent, [kit.user("go")])

    assert caught.value.ran
    assert SECRET not in said_by(caught.value)


async def test_structured_output_that_is_none_is_what_agent_rt_says(make_stage: Any, kit: Any) -> None:
    """Nobody has withheld it."""
    stage = await make_stage(outputs="enforce")
    agent = kit.agent(output=AgentOutputRequirements("json", max_repair_attempts=0))

    with pytest.raises(StructuredOutputValidationError):
        await stage.governance.govern_loop(AgentLoop(ScriptedProvider("no JSON"))).run(
            agent, [kit.user("go")]
        )


class Talkative:
    """A model whose provider says more than the answer: in its own objects, and in how it says it fares."""

    name = "talkative"
    response = ModelResponse(ModelMessage("assistant", (ContentPart("text", "fine"),)), raw={"also": SECRET})

    async def complete(self, request: Any) -> Any:
        return self.response

    async def stream(self, request: Any) -> Any:
        yield ModelStreamEvent(type="status", status=SECRET)
        yield ModelStreamEvent(type="text_delta", text="fi", status=SECRET, raw={"also": SECRET})
        yield ModelStreamEvent(type="text_delta", text="ne")
        yield ModelStreamEvent(type="completed", response=self.response, raw={"also": SECRET})


@pytest.mark.parametrize("outputs", ["off", "enforce"])
async def test_what_a_provider_says_beside_its_answer_is_not_handed_on(
    make_stage: Any, kit: Any, outputs: str
) -> None:
    """Core is not told of it, so nobody can have judged it."""
    stage = await make_stage(outputs=outputs)
    provider = stage.governance.wrap_provider(Talkative())
    request = ModelRequest(messages=(kit.user("go"),), model="m")

    async with stage.governance.run_scope():
        response = await provider.complete(request)
        events = [event async for event in provider.stream(request)]

    assert (SECRET in repr([response, events])) == (outputs == "off")
    assert response.message is Talkative.response.message
    assert [event.text for event in events if event.type == "text_delta"] == ["fi", "ne"]
    assert events[-1].response.message is Talkative.response.message
