"""Executors: called as they were, and judged before."""

from __future__ import annotations

from typing import Any

import pytest
from agent_rt import AgentLoop, CancellationToken, ToolExecutor, ToolRegistry

from openbox_agentrt import GovernanceBlockedError
from openbox_agentrt.testing import Call, ScriptedProvider


class OneArgument:
    """An executor that takes nothing but the call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def execute(self, call: Any) -> str:
        self.calls.append(call)
        return "one"


class TwoArguments(OneArgument):
    """An executor that also takes a cancellation token."""

    async def execute(self, call: Any, cancellation_token: Any = None) -> str:
        self.calls.append((call, cancellation_token))
        return "two"


async def test_arguments_are_passed_on_as_they_come(make_stage: Any, kit: Any) -> None:
    """The loop passes one argument or two; an executor that takes only one goes on working."""
    stage = await make_stage()
    one: Any = OneArgument()
    two = TwoArguments()
    token = CancellationToken()

    await stage.governance.govern_loop(AgentLoop(ScriptedProvider(Call(name="add"), "ok"), one)).run(
        kit.agent(), [kit.user("go")]
    )
    await stage.governance.govern_loop(AgentLoop(ScriptedProvider(Call(name="add"), "ok"), two)).run(
        kit.agent(), [kit.user("go")], cancellation_token=token
    )

    assert [call.name for call in one.calls] == ["add"]
    assert [given is token for _, given in two.calls] == [True]
    assert [
        e["activity_output"] for e in stage.events("ActivityCompleted") if e["activity_type"] == "add"
    ] == [
        "one",
        "two",
    ]


async def test_a_refused_call_does_not_reach_the_executor(make_stage: Any, kit: Any) -> None:
    """As with a registry."""
    stage = await make_stage(lambda e: "BLOCK" if e.get("activity_type") == "add" else None)
    executor: Any = OneArgument()

    with pytest.raises(GovernanceBlockedError):
        await stage.governance.govern_loop(AgentLoop(ScriptedProvider(Call(name="add")), executor)).run(
            kit.agent(), [kit.user("go")]
        )

    assert executor.calls == []


async def test_a_registered_tool_without_a_handler_goes_to_the_executor(make_stage: Any, kit: Any) -> None:
    """The loop picks the executor for it; that path is governed as well, and the call is judged once."""
    stage = await make_stage()
    registry = ToolRegistry()
    registry.register(kit.definition("add"))
    executor: Any = OneArgument()
    loop = AgentLoop(ScriptedProvider(Call(name="add"), "ok"), executor, registry)

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert len(executor.calls) == 1
    assert len([e for e in stage.events("ActivityStarted") if e["activity_type"] == "add"]) == 1


async def test_a_registry_as_executor_is_governed_as_one(make_stage: Any, kit: Any) -> None:
    """Its hooks are seen, as if it had been passed as the registry."""
    stage = await make_stage()
    loop: Any = stage.governance.govern_loop(AgentLoop(ScriptedProvider(), kit.registry({})))

    assert isinstance(loop.tool_executor, ToolRegistry)
    get: Any = loop.tool_executor.get
    assert get.__func__.__qualname__.startswith("GovernedRegistry")


async def test_a_governed_executor_is_an_executor(make_stage: Any) -> None:
    """For `isinstance`, for its own type and for the protocol."""
    stage = await make_stage()
    executor: Any = OneArgument()

    governed = stage.governance.wrap_tool_executor(executor)

    assert isinstance(governed, OneArgument)
    assert isinstance(governed, ToolExecutor)
    assert stage.governance.wrap_tool_executor(governed) is governed
    assert governed.calls is executor.calls


@pytest.mark.parametrize("way", ["wrap_provider", "wrap_tool_registry", "wrap_tool_executor", "govern_loop"])
async def test_what_cannot_be_governed_is_refused(make_stage: Any, way: str) -> None:
    """An object without the methods that governance stands in for is a mistake, said at once."""
    stage = await make_stage()

    with pytest.raises(TypeError, match="object"):
        getattr(stage.governance, way)(object())


async def test_what_a_tool_is_declared_to_do_counts_in_an_executor(make_stage: Any, kit: Any) -> None:
    """A policy, and the fail policy for destructive tools, see the declaration of the registry."""
    stage = await make_stage()

    class Executor:
        async def execute(self, call: Any, cancellation_token: Any = None) -> str:
            return "gone"

    registry = ToolRegistry()
    registry.register(kit.definition("wipe", side_effect="destructive"))
    loop = AgentLoop(
        ScriptedProvider(Call(name="wipe"), "x"), tool_registry=registry, tool_executor=Executor()
    )
    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    (started,) = [e for e in stage.events("ActivityStarted") if e["activity_type"] == "wipe"]
    assert started["activity_input"] == [{}, {"__openbox": {"side_effect": "destructive"}}]
