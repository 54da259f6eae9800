"""Governing every run of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import agent_rt
import pytest
from agent_rt import AgentLoop, ModelRequest, ToolProgramExecutor

from openbox_agentrt import GovernanceBlockedError, GovernanceError
from openbox_agentrt.testing import Call, ScriptedProvider

ORIGINAL = AgentLoop.run


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    yield
    assert AgentLoop.run is ORIGINAL, "the test left its patch behind"


async def test_every_loop_is_governed(make_stage: Any, kit: Any) -> None:
    """Also one that nobody handed to the governance."""
    stage = await make_stage()
    stage.governance.install()
    loop = AgentLoop(ScriptedProvider("hi", "hi"))

    await loop.run(kit.agent(), [kit.user("hello")])
    stage.governance.uninstall()
    await loop.run(kit.agent(), [kit.user("hello")])

    assert stage.story() == [
        "WorkflowStarted",
        "SignalReceived user_prompt",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "WorkflowCompleted completed",
    ]


async def test_streaming_runs_are_governed(make_stage: Any, kit: Any) -> None:
    """They go through `run` as well."""
    stage = await make_stage()
    stage.governance.install()

    async def ignore(event: Any) -> None: ...

    await AgentLoop(ScriptedProvider("hi")).run_streaming(kit.agent(), [kit.user("hello")], ignore)
    stage.governance.uninstall()

    assert stage.completed("llm_call")["status"] == "completed"


async def test_a_governed_loop_is_not_governed_twice(make_stage: Any, kit: Any) -> None:
    """One run stays one run."""
    stage = await make_stage()
    stage.governance.install()

    await stage.governance.govern_loop(AgentLoop(ScriptedProvider("hi"))).run(
        kit.agent(), [kit.user("hello")]
    )
    stage.governance.uninstall()

    assert len(stage.events("WorkflowStarted")) == 1


async def test_a_subclass_does_its_part_once(make_stage: Any, kit: Any) -> None:
    """Its own `run` is not patched; what it hands to `super` is governed."""

    class Custom(AgentLoop):
        parts = 0

        async def run(self, *args: Any, **kwargs: Any) -> Any:
            type(self).parts += 1
            return await super().run(*args, **kwargs)

    stage = await make_stage()
    stage.governance.install()

    await Custom(ScriptedProvider("hi")).run(kit.agent(), [kit.user("hello")])
    stage.governance.uninstall()

    assert Custom.parts == 1
    assert len(stage.events("WorkflowStarted")) == 1


async def test_a_library_that_builds_its_own_loop_is_governed(make_stage: Any, kit: Any) -> None:
    """Agent-RT's own OpenAI-Agents shim makes registry and loop itself."""
    agents = agent_rt.agents

    @agents.function_tool  # type: ignore[untyped-decorator]  # agent_rt ships no types
    def add(a: int, b: int) -> int:
        """Adds."""
        return pytest.fail("ran")

    stage = await make_stage(lambda e: "BLOCK" if e.get("activity_type") == "add" else None)
    stage.governance.install()
    provider = ScriptedProvider(Call(name="add", arguments={"a": 1, "b": 2}))
    agent = agents.Agent(name="a", instructions="add", tools=[add], model="m", provider=provider)
    try:
        with pytest.raises(GovernanceBlockedError):
            await agents.Runner.run(agent, "1 + 2?")
    finally:
        stage.governance.uninstall()


async def test_installing_twice_is_installing_once(make_stage: Any, kit: Any) -> None:
    """And uninstalling takes it all off."""
    stage = await make_stage()

    stage.governance.install()
    stage.governance.install()
    stage.governance.uninstall()
    stage.governance.uninstall()

    assert AgentLoop.run is ORIGINAL


async def test_another_governance_cannot_be_installed_over_it(make_stage: Any) -> None:
    """It must neither steal nor remove the first one's runs."""
    first, second = await make_stage(), await make_stage()
    first.governance.install()

    with pytest.raises(GovernanceError, match="another governance is installed"):
        second.governance.install()
    second.governance.uninstall()
    assert AgentLoop.run is not ORIGINAL
    first.governance.uninstall()


async def test_uninstalling_leaves_a_later_patch_alone(make_stage: Any, kit: Any) -> None:
    """Somebody patched over ours: theirs stays, and ours lets everything through."""
    stage = await make_stage()
    stage.governance.install()
    ours = AgentLoop.run

    async def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await ours(self, *args, **kwargs)

    AgentLoop.run = theirs  # type: ignore[method-assign]  # what others do
    stage.governance.uninstall()
    await AgentLoop(ScriptedProvider("hi")).run(kit.agent(), [kit.user("hello")])

    assert AgentLoop.run is theirs
    assert stage.events() == []
    AgentLoop.run = ORIGINAL  # type: ignore[method-assign]  # put back


async def test_closing_the_governance_uninstalls_it(make_stage: Any) -> None:
    """Nothing of it stays behind in the process."""
    stage = await make_stage()
    stage.governance.install()

    await stage.governance.aclose()

    assert AgentLoop.run is ORIGINAL


async def test_the_parts_of_the_users_own_loop_are_judged_during_a_run(make_stage: Any, kit: Any) -> None:
    """A tool that reaches for its loop's registry or provider, or a program over them, is judged."""
    stage = await make_stage(lambda e: "BLOCK" if e.get("activity_type") == "delete" else None)
    box: list[AgentLoop] = []
    refused: list[str] = []

    async def outer() -> str:
        loop: Any = box[0]
        for way in (loop.tool_registry, ToolProgramExecutor(loop.tool_registry)):
            call = kit.call("delete")
            try:
                await way.execute(call if way is loop.tool_registry else [call])
            except GovernanceBlockedError as error:
                refused.append(str(error))
        return str((await loop.provider.complete(ModelRequest(messages=(kit.user("inner"),)))).message)

    registry = kit.registry({"outer": outer, "delete": lambda: pytest.fail("ran")})
    provider = ScriptedProvider(Call(name="outer"), "inner answer", "done")
    box.append(AgentLoop(provider, tool_registry=registry))
    stage.governance.install()

    await box[0].run(kit.agent(), [kit.user("go")])

    assert len(refused) == 2
    assert len([e for e in stage.events("ActivityStarted") if e["activity_type"] == "llm_call"]) == 3
    assert box[0].tool_registry is registry
    assert box[0].provider is provider


async def test_lent_parts_forward_outside_of_a_run(make_stage: Any, kit: Any) -> None:
    """Another part of the program that uses the loop's provider meanwhile is no run, and never was judged."""
    stage = await make_stage()
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        started.set()
        await go_on.wait()
        return "waited"

    registry = kit.registry({"wait": wait, "clock": lambda: "noon"})
    loop = AgentLoop(ScriptedProvider(Call(name="wait"), "beside", "done"), tool_registry=registry)
    stage.governance.install()
    run = asyncio.create_task(loop.run(kit.agent(), [kit.user("go")]))
    await started.wait()

    assert loop.tool_registry is not registry
    assert loop.tool_registry is not None
    assert await loop.tool_registry.execute(kit.call("clock")) == "noon"
    await loop.provider.complete(ModelRequest(messages=(kit.user("beside"),)))
    go_on.set()
    await run

    started_types = [e["activity_type"] for e in stage.events("ActivityStarted")]
    assert started_types == ["llm_call", "wait", "llm_call"]


async def test_two_runs_of_one_loop_lend_once(make_stage: Any, kit: Any) -> None:
    """The first to end takes nothing back from the other, and what the user sets meanwhile stays."""
    stage = await make_stage()
    gates = [asyncio.Event(), asyncio.Event()]
    waiting = [asyncio.Event(), asyncio.Event()]

    async def wait(number: int) -> str:
        waiting[number].set()
        await gates[number].wait()
        return "waited"

    registry, other = kit.registry({"wait": wait}), kit.registry({})

    def answer(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return "done"
        return Call(name="wait", arguments={"number": int(request.messages[-1].content[0].text or 0)})

    loop = AgentLoop(ScriptedProvider(respond=answer), tool_registry=registry)
    stage.governance.install()
    runs = [asyncio.create_task(loop.run(kit.agent(), [kit.user(str(number))])) for number in (0, 1)]
    for event in waiting:
        await event.wait()

    gates[0].set()
    await runs[0]
    assert loop.tool_registry is not registry
    loop.tool_registry = other
    gates[1].set()
    await runs[1]

    assert loop.tool_registry is other
