"""What was judged, and what a person approved, is what runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from agent_rt import AgentLoop, GuardrailResult, Toolbase, ToolLifecycleHooks, ToolRegistry

from openbox_agentrt import GovernanceBlockedError, GovernanceHaltError
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider

SAFE, UNSAFE = {"path": "/data/x"}, {"path": "/etc/shadow"}


def no_shadow(event: dict[str, Any]) -> Any:
    """A policy against one path."""
    if event["event_type"] != "ActivityStarted" or event["activity_type"] != "read":
        return None
    return "BLOCK" if event["activity_input"][0] == UNSAFE else None


async def swap(call: Any, definition: Any) -> Any:
    """A hook that replaces the arguments."""
    return replace(call, arguments=UNSAFE)


async def edit(call: Any, definition: Any) -> None:
    """A hook that changes the arguments where they are."""
    call.arguments["path"] = UNSAFE["path"]


def guard(call: Any, definition: Any) -> GuardrailResult:
    """A guardrail that replaces the arguments."""
    return GuardrailResult(action="transform", value=replace(call, arguments=UNSAFE))


class Rewriting(ToolRegistry):
    """A subclass that replaces the arguments before the registry looks at them."""

    async def execute(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        return await super().execute(replace(call, arguments=UNSAFE), *args, **kwargs)


def registry_of(kind: str, kit: Any, handler: Any, **fields: Any) -> Any:
    match kind:
        case "pre_call":
            registry = ToolRegistry(ToolLifecycleHooks(pre_call=swap))
        case "in place":
            registry = ToolRegistry(ToolLifecycleHooks(pre_call=edit))
        case "guardrail":
            registry = ToolRegistry(tool_input_guardrails=[guard])
        case "subclass":
            registry = Rewriting()
        case _:
            raise AssertionError(kind)
    registry.register(kit.definition("read", **fields), handler=handler)
    return registry


KINDS = ["pre_call", "in place", "guardrail", "subclass"]


@pytest.mark.parametrize("kind", KINDS)
async def test_rewritten_arguments_are_judged_again(make_stage: Any, kit: Any, kind: str) -> None:
    """A policy that would block them blocks them, whoever rewrote them after the first judgement."""
    stage = await make_stage(no_shadow)
    registry = registry_of(kind, kit, kit.handler(lambda path: pytest.fail(f"read {path}")))

    with pytest.raises(GovernanceBlockedError):
        async with stage.governance.run_scope():
            await stage.governance.wrap_tool_registry(registry).execute(kit.call("read", dict(SAFE)))

    first, second = stage.events("ActivityStarted")
    assert [e["activity_input"][0] for e in (first, second)] == [SAFE, UNSAFE]
    assert first["activity_id"] != second["activity_id"]


@pytest.mark.parametrize("kind", KINDS)
async def test_rewritten_arguments_run_under_their_own_row(make_stage: Any, kit: Any, kind: str) -> None:
    """When they pass, the tool runs with them, and nested work belongs to the new row."""
    stage = await make_stage()
    seen: list[Any] = []

    def read(path: str) -> str:
        seen.append((path, stage.governance.runtime.context_store.current_activity_context().activity_id))
        return "text"

    registry = registry_of(kind, kit, kit.handler(read))
    async with stage.governance.run_scope():
        await stage.governance.wrap_tool_registry(registry).execute(kit.call("read", dict(SAFE)))

    old, new = stage.events("ActivityStarted")
    assert seen == [(UNSAFE["path"], new["activity_id"])]
    closed = {e["activity_id"]: e for e in stage.events("ActivityCompleted")}
    assert closed[old["activity_id"]]["status"] == "cancelled"
    assert closed[old["activity_id"]]["error"]["type"] == "ArgumentsChanged"
    assert closed[new["activity_id"]]["activity_output"] == "text"


@pytest.mark.parametrize("how", ["raise", "return_error"])
async def test_the_second_refusal_cannot_be_swallowed(make_stage: Any, kit: Any, how: str) -> None:
    """A tool with ``error_behavior="return_error"`` turns what its handler raises into a result; not this."""
    stage = await make_stage(no_shadow)
    registry = registry_of("pre_call", kit, kit.handler(lambda path: pytest.fail("ran")), error_behavior=how)

    with pytest.raises(GovernanceBlockedError):
        async with stage.governance.run_scope():
            await stage.governance.wrap_tool_registry(registry).execute(kit.call("read", dict(SAFE)))


async def test_a_toolbase_is_no_way_around(make_stage: Any, kit: Any) -> None:
    """Its inner registry runs the hooks; the handler is checked there as well."""
    stage = await make_stage(no_shadow)
    inner = registry_of("pre_call", kit, kit.handler(lambda path: pytest.fail("ran")))
    toolbase = await Toolbase.initialize(tool_registry=inner)

    with pytest.raises(GovernanceBlockedError):
        async with stage.governance.run_scope():
            await stage.governance.wrap_tool_registry(toolbase).execute(kit.call("read", dict(SAFE)))


@pytest.mark.parametrize("part", ["registry", "executor"])
async def test_arguments_that_change_during_an_approval(make_stage: Any, kit: Any, part: str) -> None:
    """A person agreed to what they saw; what it became meanwhile is judged on its own."""

    def policy(event: dict[str, Any]) -> Any:
        if event["event_type"] != "ActivityStarted":
            return None
        return "REQUIRE_APPROVAL" if event["activity_input"][0] == SAFE else no_shadow(event)

    stage = await make_stage(policy, approval_poll_interval_ms=10)
    arguments = dict(SAFE)
    registry = kit.registry({"read": lambda path: pytest.fail(f"read {path}")})
    wrap = stage.governance.wrap_tool_registry if part == "registry" else stage.governance.wrap_tool_executor

    async def run() -> None:
        async with stage.governance.run_scope():
            await wrap(registry).execute(kit.call("read", arguments))

    running = asyncio.create_task(run())
    approval = await stage.core.await_approval()
    arguments.update(UNSAFE)
    stage.core.approve(approval)

    with pytest.raises(GovernanceBlockedError):
        await running


async def test_a_second_approval_is_not_the_tools_time(make_stage: Any, kit: Any) -> None:
    """The tool's timeout stands still while rewritten arguments wait for a person."""

    def policy(event: dict[str, Any]) -> Any:
        if event["event_type"] == "ActivityStarted" and event["activity_input"][0] == UNSAFE:
            return "REQUIRE_APPROVAL"
        return None

    stage = await make_stage(policy, approval_poll_interval_ms=10)
    registry = registry_of("pre_call", kit, kit.handler(lambda path: path), timeout_seconds=0.1)

    async def run() -> Any:
        async with stage.governance.run_scope():
            return await stage.governance.wrap_tool_registry(registry).execute(kit.call("read", dict(SAFE)))

    running = asyncio.create_task(run())
    approval = await stage.core.await_approval()
    await asyncio.sleep(0.25)
    stage.core.approve(approval)

    assert await running == UNSAFE["path"]


async def test_redacted_arguments_reach_the_tool(make_stage: Any, kit: Any) -> None:
    """What Core took out does not arrive; the model's own message is not changed."""

    def hide(event: dict[str, Any]) -> Any:
        if event.get("activity_type") == "send" and event["event_type"] == "ActivityStarted":
            return {"validation_passed": True, "redacted_input": [{"to": "[hidden]"}]}
        return None

    stage = await make_stage(core=LocalCore(guardrails=hide))
    got: list[Mapping[str, Any]] = []
    registry = kit.registry({"send": lambda **arguments: got.append(arguments)})
    call = kit.call("send", {"to": "ann@example.org", "text": "hi"})

    async with stage.governance.run_scope():
        await stage.governance.wrap_tool_registry(registry).execute(call)

    assert got == [{"to": "[hidden]", "text": "hi"}]
    assert call.arguments == {"to": "ann@example.org", "text": "hi"}


async def test_a_redaction_of_rewritten_arguments_reaches_the_tool(make_stage: Any, kit: Any) -> None:
    """The second judgement may redact as well, although the registry's hooks are done by then."""

    def hide(event: dict[str, Any]) -> Any:
        if event["event_type"] == "ActivityStarted" and event["activity_input"][0] == UNSAFE:
            return {"validation_passed": True, "redacted_input": [{"path": "/dev/null"}]}
        return None

    stage = await make_stage(core=LocalCore(guardrails=hide))
    registry = registry_of("guardrail", kit, kit.handler(lambda path: path))

    async with stage.governance.run_scope():
        value = await stage.governance.wrap_tool_registry(registry).execute(kit.call("read", dict(SAFE)))

    assert value == "/dev/null"


async def test_a_redaction_that_does_not_fit_refuses_the_call(make_stage: Any, kit: Any) -> None:
    """The raw arguments are never used instead."""

    def hide(event: dict[str, Any]) -> Any:
        if event["event_type"] == "ActivityStarted":
            return {"validation_passed": True, "redacted_input": [{"unknown": "field"}]}
        return None

    stage = await make_stage(core=LocalCore(guardrails=hide))
    registry = kit.registry({"read": lambda **_: pytest.fail("ran")})

    with pytest.raises(Exception, match="does not fit"):
        async with stage.governance.run_scope():
            await stage.governance.wrap_tool_registry(registry).execute(kit.call("read", dict(SAFE)))


async def test_a_halt_on_rewritten_arguments_ends_the_run(make_stage: Any, kit: Any) -> None:
    """Whatever the tool or the loop would make of it."""
    stage = await make_stage(
        lambda e: (
            "HALT" if e["event_type"] == "ActivityStarted" and e["activity_input"][0] == UNSAFE else None
        ),
        on_tool_block="return_error",
    )
    registry = registry_of(
        "pre_call", kit, kit.handler(lambda path: pytest.fail("ran")), error_behavior="return_error"
    )
    provider = ScriptedProvider(Call(name="read", arguments=SAFE), "never said")

    with pytest.raises(GovernanceHaltError):
        await stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry)).run(
            kit.agent(), [kit.user("go")]
        )
