"""Governing every run of the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agent_rt
import pytest
from agent_rt import AgentLoop

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
