"""What Core redacted once in a conversation stays out of all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from agent_rt import AgentLoop, ContentPart, ModelMessage, ToolDefinition, ToolRegistry

from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider

SECRET = "jane.doe@example.org"


def once(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Guardrails that see the secret in a prompt only: elsewhere, nobody but us remembers it."""
    if event["event_type"] != "ActivityStarted" or event.get("activity_type") != "llm_call":
        return None
    text = json.dumps(event["activity_input"])
    if SECRET not in text:
        return None
    return {"validation_passed": True, "redacted_input": json.loads(text.replace(SECRET, "<EMAIL>"))}


def later(stage: Any) -> str:
    """All that Core was told after the question in which it redacted."""
    events = stage.events()
    first = next(i for i, event in enumerate(events) if event.get("activity_type") == "llm_call")
    return json.dumps(events[first + 1 :])


async def test_it_lasts_for_the_session(make_stage: Any, kit: Any) -> None:
    """A later run with the same session id finds the secret in its history, or is given it by a tool."""
    stage = await make_stage(core=LocalCore(guardrails=once))
    provider = ScriptedProvider("noted", Call(name="look"), "done")
    registry = kit.registry({"look": lambda: {"found": SECRET}})
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))
    session = {"session_id": "s-1"}

    await loop.run(kit.agent(), [kit.user(f"write to {SECRET}")], tool_context=session)
    await loop.run(kit.agent(), [kit.user("look it up")], tool_context=session)

    assert SECRET not in repr([request.messages for request in provider.requests])
    assert SECRET not in later(stage)


async def test_another_session_has_its_own(make_stage: Any, kit: Any) -> None:
    """What is redacted for one user is not taken out of what another one is told."""
    stage = await make_stage(core=LocalCore(guardrails=once))
    provider = ScriptedProvider("noted", Call(name="look"), "done")
    registry = kit.registry({"look": lambda: {"found": SECRET}})
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    await loop.run(kit.agent(), [kit.user(f"write to {SECRET}")], tool_context={"session_id": "s-1"})
    await loop.run(kit.agent(), [kit.user("look it up")], tool_context={"session_id": "s-2"})

    assert SECRET in repr(provider.requests[2].messages)


async def test_a_history_without_a_session_is_redacted(make_stage: Any, kit: Any) -> None:
    """A chat server sends the whole conversation with every turn, and names no session."""
    only_new = LocalCore(guardrails=lambda event: once(event) if is_alone(event) else None)
    stage = await make_stage(core=only_new)
    provider = ScriptedProvider("noted", "welcome")
    loop = stage.governance.govern_loop(AgentLoop(provider))
    history = [kit.user(f"write to {SECRET}")]

    await loop.run(kit.agent(), history)
    history += [ModelMessage("assistant", (ContentPart("text", "noted"),)), kit.user("thanks")]
    await loop.run(kit.agent(), history)

    assert SECRET not in repr([request.messages for request in provider.requests])


def is_alone(event: Mapping[str, Any]) -> bool:
    return len(event.get("activity_input", ())) == 1


async def test_it_holds_in_nested_runs(make_stage: Any, kit: Any) -> None:
    """A sub-agent is given by a tool what its parent may not see."""
    stage = await make_stage(core=LocalCore(guardrails=once))
    inner = ScriptedProvider(Call(name="look"), "done")
    registry = kit.registry({"look": lambda: {"found": SECRET}})
    child = stage.governance.govern_loop(AgentLoop(inner, tool_registry=registry))

    async def ask() -> Any:
        return (await child.run(kit.agent("child"), [kit.user("look it up")])).termination_reason

    outer = ScriptedProvider(Call(name="ask"), "done")
    loop = AgentLoop(outer, tool_registry=kit.registry({"ask": ask}))
    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user(f"write to {SECRET}")])

    assert SECRET not in repr([request.messages for request in (*inner.requests, *outer.requests)])
    assert SECRET not in later(stage)


PAYMENT = ToolDefinition(
    "pay", "pays", {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
)


@pytest.mark.parametrize("on_tool_block", ["raise", "return_error"])
async def test_a_redaction_that_breaks_the_schema_is_a_denial(
    make_stage: Any, kit: Any, on_tool_block: str
) -> None:
    """The model is told, the tool does not run, and the run goes on: nobody did anything wrong."""

    def guardrails(event: Mapping[str, Any]) -> Any:
        if event["event_type"] == "ActivityStarted" and event.get("activity_type") == "pay":
            return {"validation_passed": True, "redacted_input": [{"amount": "<AMOUNT>"}]}
        return None

    stage = await make_stage(core=LocalCore(guardrails=guardrails), on_tool_block=on_tool_block)
    registry = ToolRegistry()
    registry.register(PAYMENT, handler=kit.handler(lambda amount: pytest.fail("ran")))
    amount = {"amount": 12_345_678}  # long enough to be known again without asking Core
    provider = ScriptedProvider(
        Call(name="pay", arguments=amount), Call(name="pay", arguments=amount), "sorry"
    )

    result = await stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry)).run(
        kit.agent(), [kit.user("pay")]
    )

    errors = kit.tool_errors(result)
    assert [error["type"] for error in errors] == ["governance_blocked"] * 2
    assert "schema" in errors[0]["message"]
    assert stage.completed("pay")["status"] == "failed"
    assert stage.story()[-1] == "WorkflowCompleted completed"
