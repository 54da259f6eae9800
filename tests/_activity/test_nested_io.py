"""Requests and queries that a tool or a model makes carry the ids of its activity, and can be refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from agent_rt import AgentLoop, AgentRunLimits
from openbox_core.conformance.instrumentation import LocalCountingServer
from sqlalchemy import create_engine, text

from openbox_agentrt import (
    GovernanceBlockedError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    create_openbox_agentrt,
    current_run,
)
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, Fault, FaultyCore, ScriptedProvider


@pytest.fixture(scope="module")
def server() -> Iterator[LocalCountingServer]:
    counting = LocalCountingServer()
    yield counting
    counting.stop()


async def fetch(url: str) -> int:
    async with httpx.AsyncClient() as client:
        return (await client.get(url)).status_code


def query() -> int:
    engine = create_engine("sqlite://")
    try:
        with engine.connect() as connection:
            return int(connection.execute(text("SELECT 7")).scalar_one())
    finally:
        engine.dispose()


def hooks_of(stage: Any) -> list[dict[str, Any]]:
    """Events of nested I/O that were asked about before it happened."""
    return [
        record.event
        for record in stage.core.records()
        if record.event.get("spans") and record.event["spans"][0]["stage"] == "started"
    ]


def refuse_nested(answer: Any) -> Any:
    return lambda event: answer if event.get("hook_trigger") else None


@pytest.mark.parametrize("part", ["registry", "executor"])
async def test_a_tools_request_carries_its_ids(make_stage: Any, kit: Any, server: Any, part: str) -> None:
    """Workflow, run and activity of the tool call."""
    stage = await make_stage(install_instrumentation=True)
    registry = kit.registry({"fetch": lambda: fetch(server.url)})
    wrap = stage.governance.wrap_tool_registry if part == "registry" else stage.governance.wrap_tool_executor

    async with stage.governance.run_scope():
        assert await wrap(registry).execute(kit.call("fetch")) == 200

    (started,) = stage.events("ActivityStarted")
    (hook,) = hooks_of(stage)
    for key in ("workflow_id", "run_id", "activity_id", "activity_type"):
        assert hook[key] == started[key]


@pytest.mark.parametrize("where", ["here", "in a thread"])
async def test_a_tools_query_carries_its_ids(make_stage: Any, kit: Any, where: str) -> None:
    """Also from a thread that ``asyncio.to_thread`` starts."""
    stage = await make_stage(install_instrumentation=True)
    registry = kit.registry({"query": query if where == "here" else lambda: asyncio.to_thread(query)})

    async with stage.governance.run_scope():
        await stage.governance.wrap_tool_registry(registry).execute(kit.call("query"))

    (started,) = stage.events("ActivityStarted")
    assert {hook["activity_id"] for hook in hooks_of(stage)} == {started["activity_id"]}
    assert hooks_of(stage)[0]["spans"][0]["hook_type"] == "db_query"


@pytest.mark.parametrize("limits", [None, AgentRunLimits(timeout_seconds=30)], ids=["no limit", "deadline"])
async def test_a_streamed_models_calls_carry_its_ids(
    make_stage: Any, kit: Any, server: Any, limits: Any
) -> None:
    """Those of every step; a call of the consumer between two steps belongs to no activity."""

    class Remote(ScriptedProvider):
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            await fetch(f"{server.url}/open")
            async for event in super().stream(request):
                query()
                yield event

    stage = await make_stage(install_instrumentation=True)
    loop = stage.governance.govern_loop(AgentLoop(Remote("one two")))
    own: list[str] = []

    async def consume(event: Any) -> None:
        url = f"{server.url}/consumer"
        await fetch(url)
        query()
        own.append(url)

    await loop.run_streaming(kit.agent(), [kit.user("hi")], consume, **({"limits": limits} if limits else {}))

    (started,) = stage.events("ActivityStarted")
    hooks = hooks_of(stage)
    assert len(own) == 3
    assert {hook["activity_id"] for hook in hooks} == {started["activity_id"]}
    assert [hook["spans"][0]["hook_type"] for hook in hooks] == ["http_request"] + ["db_query"] * 3


async def test_parallel_tools_keep_their_requests_apart(make_stage: Any, kit: Any, server: Any) -> None:
    """Each request carries the ids of the call that made it."""
    from openbox_agentrt.testing import Reply

    stage = await make_stage(install_instrumentation=True)
    registry = kit.registry({"a": lambda: fetch(f"{server.url}/a"), "b": lambda: fetch(f"{server.url}/b")})
    provider = ScriptedProvider(Reply(calls=(Call(name="a"), Call(name="b"))), "done")
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    await loop.run(kit.agent(), [kit.user("go")], limits=AgentRunLimits(concurrent_tool_calls=True))

    assert {(h["activity_type"], h["spans"][0]["http_url"][-1]) for h in hooks_of(stage)} == {
        ("a", "a"),
        ("b", "b"),
    }


async def test_a_custom_activitys_request_carries_its_ids(make_stage: Any, server: Any) -> None:
    """As a tool's does; and after the block nothing does."""
    stage = await make_stage(install_instrumentation=True)

    async with stage.governance.run_scope():
        async with stage.governance.activity("sync"):
            await fetch(server.url)
        await fetch(server.url)

    assert [hook["activity_type"] for hook in hooks_of(stage)] == ["sync"]


async def test_an_activity_scope_attributes_without_asking(make_stage: Any, server: Any) -> None:
    """It names the activity for nested I/O, and does nothing else."""
    stage = await make_stage(install_instrumentation=True)

    async with stage.governance.run_scope() as run:
        with stage.governance.activity_scope(run, "my-id", "my-type"):
            await fetch(server.url)

    (hook,) = hooks_of(stage)
    assert (hook["run_id"], hook["activity_id"], hook["activity_type"]) == (run.run_id, "my-id", "my-type")
    assert stage.events("ActivityStarted") == []


async def test_a_blocked_request_is_not_made(make_stage: Any, kit: Any, server: Any) -> None:
    """The tool gets the refusal as an exception, and the run fails with it."""
    stage = await make_stage(
        refuse_nested({"decision": "BLOCK", "reason": "not that host"}), install_instrumentation=True
    )
    server.hits = 0
    loop = AgentLoop(
        ScriptedProvider(Call(name="fetch")), tool_registry=kit.registry({"fetch": lambda: fetch(server.url)})
    )

    with pytest.raises(GovernanceBlockedError, match="not that host"):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert server.hits == 0
    assert stage.completed("fetch")["error"]["type"] == "GovernanceBlockedError"


async def test_a_blocked_request_that_the_tool_survives(make_stage: Any, kit: Any, server: Any) -> None:
    """A tool may deal with a BLOCK; the run keeps the decision."""
    runs: list[Any] = []

    async def careful() -> str:
        runs.append(current_run())
        try:
            await fetch(server.url)
        except GovernanceBlockedError:
            return "went without"
        return "fetched"

    stage = await make_stage(refuse_nested("BLOCK"), install_instrumentation=True)
    loop = AgentLoop(
        ScriptedProvider(Call(name="fetch"), "done"), tool_registry=kit.registry({"fetch": careful})
    )

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert stage.completed("fetch")["activity_output"] == "went without"
    blocked = [d for d in runs[0].decisions if d.verdict.value == "block"]
    assert [d.event for d in blocked] == ["fetch"]


@pytest.mark.parametrize("io", ["request", "query", "query in a thread"])
@pytest.mark.parametrize("behavior", ["raise", "return_error"])
async def test_a_halted_request_ends_the_run(
    make_stage: Any, kit: Any, server: Any, io: str, behavior: str
) -> None:
    """Whatever the tool makes of it: the HALT is Core's last word for the run."""
    work: dict[str, Any] = {
        "request": lambda: fetch(server.url),
        "query": query,
        "query in a thread": lambda: asyncio.to_thread(query),
    }

    async def swallowing() -> str:
        try:
            value = work[io]()
            if asyncio.iscoroutine(value):
                await value
        except Exception:  # noqa: BLE001
            # A tool that lets nothing out is the point.
            return "never mind"
        return "ok"

    stage = await make_stage(refuse_nested("HALT"), install_instrumentation=True)
    registry = kit.registry(
        {"work": swallowing, "after": lambda: pytest.fail("ran")}, fields={"error_behavior": behavior}
    )
    provider = ScriptedProvider(Call(name="work"), Call(name="after"), "never said")
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    with pytest.raises(GovernanceHaltError):
        await loop.run(kit.agent(), [kit.user("go")])

    assert len(provider.requests) == 1
    assert stage.completed("work")["error"]["type"] == "GovernanceHaltError"


async def test_a_halt_on_a_finished_request_stops_what_comes_next(
    make_stage: Any, kit: Any, server: Any
) -> None:
    """The tool keeps its result; the run is halted at once, and Core is not asked about what comes next."""
    halted: list[Any] = []

    def policy(event: dict[str, Any]) -> Any:
        return "HALT" if event.get("spans") and event["spans"][0]["stage"] == "completed" else None

    async def work() -> int:
        status = await fetch(server.url)
        run = current_run()
        halted.append(None if run is None else run.halted)
        return status

    stage = await make_stage(policy, install_instrumentation=True)
    provider = ScriptedProvider(Call(name="fetch"), "never said")
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=kit.registry({"fetch": work})))

    with pytest.raises(GovernanceHaltError):
        await loop.run(kit.agent(), [kit.user("go")])

    assert [decision.verdict.value for decision in halted] == ["halt"]
    assert stage.completed("fetch")["activity_output"] == 200
    assert [event["activity_type"] for event in stage.events("ActivityStarted")] == ["llm_call", "fetch"]


async def test_a_request_of_a_halted_run_is_remembered_for_that_run_only(
    make_stage: Any, kit: Any, server: Any
) -> None:
    """The next run of the same governance goes on as before."""
    answers = iter(["HALT"])
    stage = await make_stage(
        lambda event: next(answers, None) if event.get("hook_trigger") else None, install_instrumentation=True
    )
    loop = stage.governance.govern_loop(
        AgentLoop(
            ScriptedProvider(Call(name="fetch"), Call(name="fetch"), "done"),
            tool_registry=kit.registry({"fetch": lambda: fetch(server.url)}),
        )
    )

    with pytest.raises(GovernanceHaltError):
        await loop.run(kit.agent(), [kit.user("go")])
    result = await loop.run(kit.agent(), [kit.user("go")])

    assert result.termination_reason == "completed"
    assert not stage.governance.runtime.context_store._aborted_activities


@pytest.mark.parametrize("swallowed", [False, True], ids=["raised", "swallowed"])
async def test_an_outage_at_nested_io_is_no_halt(
    kit: Any, server: LocalCountingServer, swallowed: bool
) -> None:
    """One request was not judged, under ``fail_closed``. Nobody has halted the run, which goes on."""
    with FaultyCore() as faulty:
        governance = await create_openbox_agentrt(
            environ={}, api_url=faulty.url, api_key=faulty.api_key, on_api_error="fail_closed"
        )
        outage = faulty.always(Fault.respond(503), path="/evaluate")

        async def reach() -> str:
            with outage:
                if not swallowed:
                    return str(await fetch(server.url))
                with pytest.raises(GovernanceUnavailableError):
                    await fetch(server.url)
            return f"then {await fetch(server.url)}"

        registry = governance.wrap_tool_registry(kit.registry({"reach": reach}))
        async with governance, governance.run_scope() as run:
            if swallowed:
                assert await registry.execute(kit.call("reach")) == "then 200"
            else:
                with pytest.raises(GovernanceUnavailableError):
                    await registry.execute(kit.call("reach"))
            async with governance.activity("afterwards", [1]):
                pass

    assert run.halted is None
    refused = [each for each in run.decisions if each.source == "unreachable"]
    assert [(each.event, each.verdict.value, each.unreachable) for each in refused] == [
        ("reach", "block", True)
    ]


async def test_what_an_approved_tool_does_is_part_of_it(
    make_stage: Any, kit: Any, server: LocalCountingServer
) -> None:
    """The documented policy names the tool: a person is asked once, and not at each of its requests."""
    asked: list[Any] = []
    stage = await make_stage(
        core=LocalCore(
            lambda event: "REQUIRE_APPROVAL" if event.get("activity_type") == "refund" else None,
            on_approval=asked.append,
        ),
        install_instrumentation=True,
        approval_poll_interval_ms=5,
    )

    async def refund() -> int:
        return await fetch(server.url) + await fetch(server.url)

    registry = stage.governance.wrap_tool_registry(kit.registry({"refund": refund}))
    async with stage.governance.run_scope():
        running = asyncio.create_task(registry.execute(kit.call("refund")))
        stage.core.approve(await stage.core.await_approval())
        assert await asyncio.wait_for(running, 5) == 400

    assert len(asked) == 1
    assert len(hooks_of(stage)) == 2
