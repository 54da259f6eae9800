"""Constraints that come with another verdict."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import GovernanceBlockedError
from openbox_agentrt.testing import Call, ScriptedProvider


def both(event: dict[str, Any]) -> Any:
    """A person has to approve `work`, and it has to run in a sandbox."""
    if event["event_type"] == "ActivityStarted" and event.get("activity_type") == "work":
        return {"decision": "REQUIRE_APPROVAL", "constraints": ["run_in_sandbox"]}
    return None


async def test_an_approval_does_not_lift_the_sandbox(make_stage: Any, kit: Any) -> None:
    """Nothing here provides a sandbox, so the call does not run although a person said yes."""
    ran: list[str] = []
    stage = await make_stage(both, approval_poll_interval_ms=10)
    loop = AgentLoop(
        ScriptedProvider(Call(name="work"), "fine"),
        tool_registry=kit.registry({"work": lambda: ran.append("work")}),
    )
    running = asyncio.create_task(stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")]))
    stage.core.approve(await stage.core.await_approval())

    with pytest.raises(GovernanceBlockedError, match="run_in_sandbox"):
        await running
    assert ran == []


async def test_what_was_approved_runs_within_its_constraints(make_stage: Any, kit: Any) -> None:
    """The sandbox is open while the approved call runs."""
    log: list[str] = []

    @contextmanager
    def sandbox() -> Any:
        log.append("in")
        yield
        log.append("out")

    stage = await make_stage(
        both,
        approval_poll_interval_ms=10,
        constraint_handlers={"run_in_sandbox": lambda decision: sandbox()},
    )
    loop = AgentLoop(
        ScriptedProvider(Call(name="work"), "fine"),
        tool_registry=kit.registry({"work": lambda: log.append("work")}),
    )
    running = asyncio.create_task(stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")]))
    stage.core.approve(await stage.core.await_approval())
    await running

    assert log == ["in", "work", "out"]
