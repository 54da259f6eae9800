"""Constraints that come with another verdict."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from agent_rt import AgentLoop, ContentPart, EmbeddingRequest, ModelMessage, ModelRequest

from openbox_agentrt import GovernanceBlockedError
from openbox_agentrt.testing import Call, ScriptedProvider


def both(event: dict[str, Any]) -> Any:
    """A person has to approve `work`, and it has to run in a sandbox."""
    if event["event_type"] == "ActivityStarted" and event.get("activity_type") == "work":
        return {"decision": "REQUIRE_APPROVAL", "constraints": ["run_in_sandbox"]}
    return None


class Embedding(ScriptedProvider):
    """A provider that embeds, too."""

    async def embed(self, request: Any) -> Any:
        self.requests.append(request)


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


@pytest.mark.parametrize("way", ["complete", "stream", "embed"])
@pytest.mark.parametrize("swallows", [False, True])
async def test_messages_that_change_while_a_sandbox_is_made_are_not_sent(
    make_stage: Any, way: str, swallows: bool
) -> None:
    """A constraint's context manager takes its time, and what was judged is what is sent or nothing is."""
    data = {"note": "fine"}

    @asynccontextmanager
    async def sandbox() -> Any:
        await asyncio.sleep(0)
        data["note"] = "changed"
        try:
            yield
        except GovernanceBlockedError:
            if not swallows:
                raise

    stage = await make_stage(
        lambda event: (
            {"decision": "CONSTRAIN", "constraints": ["sandbox"]}
            if event["event_type"] == "ActivityStarted"
            else None
        ),
        constraint_handlers={"sandbox": lambda decision: sandbox()},
    )
    inner = Embedding("never said")
    request = ModelRequest((ModelMessage("user", (ContentPart("json", data=data),)),))

    async def call() -> None:
        async with stage.governance.run_scope():
            provider = stage.governance.wrap_provider(inner)
            if way == "stream":
                async for _ in provider.stream(request):
                    pass
            elif way == "complete":
                await provider.complete(request)
            else:
                await provider.embed(EmbeddingRequest([data], model="m"))

    with pytest.raises(GovernanceBlockedError, match="change while they are judged"):
        await call()
    assert inner.requests == []
    assert stage.completed("llm_call")["status"] == "failed"
