"""Providers: what `isinstance` says, what is passed through, and what Core is told."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from agent_rt import (
    AgentLoop,
    EmbeddingModelProvider,
    ModelProvider,
    ModelRequest,
    StreamingModelProvider,
    TokenCountingModelProvider,
)

from openbox_agentrt import GovernanceBlockedError
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, CompleteOnlyProvider, ScriptedProvider


class Everything(ScriptedProvider):
    """A provider with all that Agent-RT knows."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(*steps)
        self.client = "client"

    async def count_tokens(self, request: Any) -> int:
        return 7

    async def embed(self, request: Any) -> str:
        return "vector"


@pytest.mark.parametrize(
    "make", [CompleteOnlyProvider, ScriptedProvider, Everything], ids=["complete", "stream", "everything"]
)
@pytest.mark.parametrize(
    "protocol", [ModelProvider, StreamingModelProvider, TokenCountingModelProvider, EmbeddingModelProvider]
)
async def test_a_governed_provider_claims_what_its_provider_does(
    make_stage: Any, make: Any, protocol: Any
) -> None:
    """Protocol checks give the answer of the wrapped provider, on every version of Python."""
    stage = await make_stage()
    provider = make()

    governed = stage.governance.wrap_provider(provider)

    assert isinstance(governed, protocol) is isinstance(provider, protocol)
    assert isinstance(governed, make)
    assert hasattr(governed, "stream") is hasattr(provider, "stream")


async def test_streaming_still_needs_a_streaming_provider(make_stage: Any, kit: Any) -> None:
    """A provider that cannot stream is refused by Agent-RT, as before."""
    stage = await make_stage()
    loop = stage.governance.govern_loop(AgentLoop(CompleteOnlyProvider("hi")))

    async def ignore(event: Any) -> None: ...

    with pytest.raises(TypeError, match="streaming requires"):
        await loop.run_streaming(kit.agent(), [kit.user("hi")], ignore)


async def test_the_rest_of_a_provider_is_passed_through(make_stage: Any, kit: Any) -> None:
    """Names, clients and helper calls are the provider's own, and no activities."""
    stage = await make_stage()
    provider = Everything("hi")
    governed = stage.governance.wrap_provider(provider)

    governed.client = "another"

    assert governed.name == "scripted"
    assert provider.client == "another"
    assert await governed.count_tokens(ModelRequest(messages=(kit.user("hi"),))) == 7
    assert stage.events() == []


async def test_a_provider_that_cannot_be_called_now_has_failed(make_stage: Any, kit: Any) -> None:
    """One that makes its client with the first call fails like any other call: its row is closed at once."""

    class Late(CompleteOnlyProvider):
        is_ready = True

        def __getattribute__(self, name: str) -> Any:
            if name == "complete" and not self.is_ready:
                raise ConnectionError("no client")
            return super().__getattribute__(name)

    stage = await make_stage()
    provider = Late("never said")
    governed = stage.governance.wrap_provider(provider)
    provider.is_ready = False

    async with stage.governance.run_scope():
        with pytest.raises(ConnectionError):
            await governed.complete(ModelRequest(messages=(kit.user("hi"),)))
        (ended,) = stage.events("ActivityCompleted")

    assert (ended["status"], ended["error"]["type"]) == ("failed", "ConnectionError")


async def test_copies_of_a_governed_provider_are_governed(make_stage: Any, kit: Any) -> None:
    """A loop that is copied with its provider does not lose governance."""
    stage = await make_stage(lambda e: "BLOCK" if e["event_type"] == "ActivityStarted" else None)

    class Plain:
        name = "plain"

        async def complete(self, request: Any) -> Any:
            pytest.fail("called")

    governed = stage.governance.wrap_provider(Plain())

    for other in (copy.copy(governed), copy.deepcopy(governed)):
        with pytest.raises(GovernanceBlockedError):
            async with stage.governance.run_scope():
                await other.complete(ModelRequest(messages=(kit.user("hi"),)))


async def test_each_call_names_its_model(make_stage: Any, kit: Any) -> None:
    """What is judged is the last user text of the request, the rest of it, and the model that it goes to."""
    stage = await make_stage()
    provider = stage.governance.wrap_provider(ScriptedProvider("hi"))

    async with stage.governance.run_scope():
        await provider.complete(ModelRequest(messages=(kit.user("one"), kit.user("two")), model="big"))

    (started,) = stage.events("ActivityStarted")
    assert started["activity_input"] == [{"prompt": "two"}, {"role": "user", "prompt": "one"}]
    assert started["llm_model"] == "big"


async def test_a_prescreen_is_taken_over_once(make_stage: Any, kit: Any) -> None:
    """The second call with the same text is judged on its own."""
    stage = await make_stage()
    provider = stage.governance.wrap_provider(ScriptedProvider("a", "b"))

    async with stage.governance.run_scope("hi") as run:
        for _ in range(2):
            await provider.complete(ModelRequest(messages=(kit.user("hi"),)))

    first, second = stage.events("ActivityStarted")
    assert first["activity_id"] == run.identity.prescreen_id
    assert second["activity_id"] != first["activity_id"]


async def test_another_prompt_does_not_take_over_the_prescreen(make_stage: Any, kit: Any) -> None:
    """It was made for one text; the call is judged, and the pre-screen closed unused."""
    stage = await make_stage()
    provider = stage.governance.wrap_provider(ScriptedProvider("a"))

    async with stage.governance.run_scope("hi"):
        await provider.complete(ModelRequest(messages=(kit.user("something else"),)))

    assert [e["activity_input"][0]["prompt"] for e in stage.events("ActivityStarted")] == [
        "hi",
        "something else",
    ]


def hide_number(event: dict[str, Any]) -> Any:
    """Guardrails that take a telephone number out of prompts."""
    if event["event_type"] != "ActivityStarted" or event.get("activity_type") != "llm_call":
        return None
    prompt = event["activity_input"][0]["prompt"]
    redacted = [{"prompt": prompt.replace("555-0100", "[phone]")}, *event["activity_input"][1:]]
    return {"validation_passed": True, "redacted_input": redacted}


async def test_a_redacted_prompt_reaches_the_model(make_stage: Any, kit: Any) -> None:
    """In a copy: the caller's messages are not changed, and other parts stay."""
    from agent_rt import ContentPart, ModelMessage

    stage = await make_stage(core=LocalCore(guardrails=hide_number))
    image = ContentPart("image", data="pixels", mime_type="image/png")
    message = ModelMessage("user", (ContentPart("text", "call 555-0100"), image))
    provider = ScriptedProvider("ok")
    loop = stage.governance.govern_loop(AgentLoop(provider))

    result = await loop.run(kit.agent(), [message])

    sent = provider.requests[0].messages[-1]
    assert [part.text for part in sent.content] == ["call [phone]", None]
    assert sent.content[1] is image
    assert message.content[0].text == "call 555-0100"
    assert result.messages[1] is message


async def test_a_redaction_stays_in_force(make_stage: Any, kit: Any) -> None:
    """Later turns carry the same history: the model does not see there what was taken out before."""
    stage = await make_stage(core=LocalCore(guardrails=hide_number))
    provider = ScriptedProvider(Call(name="look", arguments={"number": "555-0100 please"}), "done")
    got: list[Any] = []

    def look(number: str) -> str:
        got.append(number)
        return "found 555-0100 twice"

    registry = kit.registry({"look": look})
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    await loop.run(kit.agent(), [kit.user("call 555-0100 now, at once")])

    assert "555-0100" not in repr(provider.requests[1].messages)
    assert "555-0100" not in repr(got)
    assert "555-0100" not in repr(stage.events("ActivityCompleted", "WorkflowCompleted"))


async def test_unredacted_requests_are_the_same_object(make_stage: Any, kit: Any) -> None:
    """Providers cache by identity; nothing is copied that does not change."""
    stage = await make_stage()
    provider = ScriptedProvider("ok")
    request = ModelRequest(messages=(kit.user("hi"),))

    async with stage.governance.run_scope():
        await stage.governance.wrap_provider(provider).complete(request)

    assert provider.requests[0] is request


async def test_redacted_messages_stay_the_same_object(make_stage: Any, kit: Any) -> None:
    """The same message is redacted into the same copy at every turn."""
    stage = await make_stage(core=LocalCore(guardrails=hide_number))
    provider = ScriptedProvider(Call(name="look"), Call(name="look"), "done")
    loop = stage.governance.govern_loop(
        AgentLoop(provider, tool_registry=kit.registry({"look": lambda: "x"}))
    )

    await loop.run(kit.agent(), [kit.user("call 555-0100")])

    first, second, third = (request.messages[1] for request in provider.requests)
    assert first is second is third


async def test_outputs_are_redacted_when_asked_for(make_stage: Any, kit: Any) -> None:
    """What the model sees next, and what the caller gets, is Core's version of the output."""

    def hide(event: dict[str, Any]) -> Any:
        if event["event_type"] != "ActivityCompleted":
            return None
        if event["activity_type"] == "look":
            return {"validation_passed": True, "redacted_input": {"name": "[hidden]"}}
        return {"validation_passed": True, "redacted_input": {"completion": "[hidden] lives here"}}

    stage = await make_stage(core=LocalCore(guardrails=hide), redact_outputs=True)
    provider = ScriptedProvider(Call(name="look"), "Ann lives here")
    registry = kit.registry({"look": lambda: {"name": "Ann", "age": 7}})
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    result = await loop.run(kit.agent(), [kit.user("who?")])

    assert provider.requests[1].messages[-1].content[0].data == {"name": "[hidden]", "age": 7}
    assert result.final_response.message.content[0].text == "[hidden] lives here"


async def test_outputs_are_left_alone_by_default(make_stage: Any, kit: Any) -> None:
    """A redaction in the answer to a report is not applied unless that is asked for."""
    stage = await make_stage()
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider("mail ann@example.org")))

    result = await loop.run(kit.agent(), [kit.user("who?")])

    assert result.final_response.message.content[0].text == "mail ann@example.org"


async def test_an_output_whose_redaction_does_not_fit_is_withheld(make_stage: Any, kit: Any) -> None:
    """Core said that it must not be seen as it is."""

    def hide(event: dict[str, Any]) -> Any:
        if event["event_type"] == "ActivityCompleted" and event["activity_type"] == "look":
            return {"validation_passed": True, "redacted_input": {"unknown": "field"}}
        return None

    stage = await make_stage(core=LocalCore(guardrails=hide), redact_outputs=True)
    provider = ScriptedProvider(Call(name="look"), "done")
    loop = stage.governance.govern_loop(
        AgentLoop(provider, tool_registry=kit.registry({"look": lambda: {"name": "Ann"}}))
    )

    result = await loop.run(kit.agent(), [kit.user("who?")])

    assert "Ann" not in repr(result.messages)
    assert [error["message"] for error in kit.tool_errors(result)] == ["the output is withheld by policy"]
