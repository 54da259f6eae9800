"""A tool's timeout is its own time: what judges and people take is not counted."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from agent_rt import AgentLoop, AgentRunLimits, ToolTimeoutError

from openbox_agentrt.testing import Call, ScriptedProvider


def needs_approval(event: dict[str, Any]) -> Any:
    return "REQUIRE_APPROVAL" if "activity_input" in event and event["activity_type"] == "slow" else None


async def test_an_approval_does_not_use_up_the_timeout(make_stage: Any, kit: Any) -> None:
    """A tool of 0.1 s runs after an approval of 0.3 s."""
    stage = await make_stage(needs_approval, approval_poll_interval_ms=10)
    registry = kit.registry({"slow": lambda: "ran"}, fields={"timeout_seconds": 0.1})
    loop = stage.governance.govern_loop(
        AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=registry)
    )
    running = asyncio.create_task(loop.run(kit.agent(), [kit.user("go")]))

    approval = await stage.core.await_approval()
    await asyncio.sleep(0.3)
    stage.core.approve(approval)
    result = await running

    assert kit.tool_errors(result) == []
    assert stage.completed("slow")["activity_output"] == "ran"


@pytest.mark.parametrize("behavior", ["raise", "return_error"])
@pytest.mark.parametrize("from_environment", [False, True], ids=["own", "environment"])
async def test_a_slow_tool_times_out_as_before(
    make_stage: Any, kit: Any, behavior: str, from_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model sees Agent-RT's own message, with the tool's own number in it."""
    fields: dict[str, Any] = {"error_behavior": behavior}
    if from_environment:
        monkeypatch.setenv("AGENT_RT_EXECUTION_TIMEOUT_SECONDS", "0.05")
    else:
        fields["timeout_seconds"] = 0.05
    registry = kit.registry({"slow": lambda: asyncio.sleep(5)}, fields=fields)
    loop = AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=registry)
    plain = await loop.run(kit.agent(), [kit.user("go")])
    stage = await make_stage()
    loop = AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=registry)

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert kit.tool_errors(result) == kit.tool_errors(plain)
    assert kit.tool_errors(result) == [{"type": "tool_timeout", "tool": "slow", "timeout_seconds": 0.05}]
    if not from_environment:
        assert stage.completed("slow")["error"]["type"] == "ToolTimeoutError"


async def test_the_environment_does_not_shorten_a_tools_own_time(
    make_stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that names its timeout keeps it, also where the environment sets another for all tools."""
    monkeypatch.setenv("AGENT_RT_EXECUTION_TIMEOUT_SECONDS", "0.02")
    stage = await make_stage()
    registry = kit.registry({"slow": lambda: asyncio.sleep(0.1, "ran")}, fields={"timeout_seconds": 5.0})
    loop = AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=registry)

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert stage.completed("slow")["activity_output"] == "ran"


async def test_a_timeout_of_zero_stays_one(make_stage: Any, kit: Any) -> None:
    """Agent-RT does not even start such a tool, and neither is it judged."""
    stage = await make_stage()
    registry = kit.registry({"slow": lambda: pytest.fail("ran")}, fields={"timeout_seconds": 0.0})
    loop = AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=registry)

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert [error["type"] for error in kit.tool_errors(result)] == ["tool_timeout"]
    assert [e for e in stage.events() if e.get("activity_type") == "slow"] == []


async def test_the_run_deadline_counts_everything(make_stage: Any, kit: Any) -> None:
    """It is the caller's time: an approval that takes longer ends the run."""
    stage = await make_stage(needs_approval, approval_poll_interval_ms=10)
    registry = kit.registry({"slow": lambda: pytest.fail("ran")}, fields={"timeout_seconds": 5.0})
    loop = AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=registry)

    result = await stage.governance.govern_loop(loop).run(
        kit.agent(), [kit.user("go")], limits=AgentRunLimits(timeout_seconds=0.1)
    )

    assert result.termination_reason == "timeout"
    assert stage.completed("slow")["status"] == "cancelled"
    assert stage.events("WorkflowCompleted")[0]["status"] == "timeout"


async def test_calling_the_registry_directly_keeps_the_timeout(make_stage: Any, kit: Any) -> None:
    """Not only the loop: whoever calls `execute` gets the timeout, from when the tool starts."""
    stage = await make_stage()
    registry = kit.registry({"slow": lambda: asyncio.sleep(5)}, fields={"timeout_seconds": 0.05})

    async with stage.governance.run_scope():
        began = time.monotonic()
        with pytest.raises(ToolTimeoutError, match=r"exceeded timeout of 0\.05 seconds"):
            await stage.governance.wrap_tool_registry(registry).execute(kit.call("slow"))
        assert time.monotonic() - began < 2


async def test_a_tools_own_timeout_error_is_told_as_before(make_stage: Any, kit: Any) -> None:
    """With a timeout set, Agent-RT reports any TimeoutError of the tool; without, the run fails with it."""

    def fail() -> None:
        raise TimeoutError("socket")

    stage = await make_stage()
    timed = kit.registry({"slow": fail}, fields={"timeout_seconds": 5.0})
    loop = AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=timed)
    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])
    untimed = AgentLoop(
        ScriptedProvider(Call(name="slow"), "done"), tool_registry=kit.registry({"slow": fail})
    )

    assert [error["type"] for error in kit.tool_errors(result)] == ["tool_timeout"]
    with pytest.raises(TimeoutError, match="socket"):
        await stage.governance.govern_loop(untimed).run(kit.agent(), [kit.user("go")])


async def test_skipped_tools_keep_their_timeout(make_stage: Any, kit: Any) -> None:
    """What is not governed is left to the loop."""
    stage = await make_stage(skip_tools=["slow"])
    registry = kit.registry({"slow": lambda: asyncio.sleep(5)}, fields={"timeout_seconds": 0.05})
    loop = AgentLoop(ScriptedProvider(Call(name="slow"), "done"), tool_registry=registry)

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert kit.tool_errors(result) == [{"type": "tool_timeout", "tool": "slow", "timeout_seconds": 0.05}]
