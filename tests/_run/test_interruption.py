"""Interruptions from outside: deadlines, Ctrl+C, a slow Core, and what must not wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_rt import AgentLoop, AgentRunLimits, CancellationToken

from openbox_agentrt import GovernanceHaltError, UngovernedCallError, create_openbox_agentrt, current_run
from openbox_agentrt._core.transport.direct import LocalLine
from openbox_agentrt._run import close as ending
from openbox_agentrt.local_core import LocalCore, UndecidableApprovalError
from openbox_agentrt.testing import Call, ScriptedProvider


def slow_core(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Core hears a report only after `seconds`; gates are answered at once."""
    carry = LocalLine.carry

    async def slowly(self: LocalLine, method: str, path: str, headers: Any, body: bytes) -> Any:
        if b"Completed" in body or b"WorkflowFailed" in body:
            await asyncio.sleep(seconds)
        return await carry(self, method, path, headers, body)

    monkeypatch.setattr(LocalLine, "carry", slowly)


async def test_a_cancelled_caller_does_not_wait_for_a_slow_core(
    make_stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It returns within the grace; Core is told in the background, and all of it."""
    monkeypatch.setattr(ending, "GRACE_SECONDS", 0.05)
    stage = await make_stage()
    slow_core(monkeypatch, 0.5)
    begun = asyncio.Event()

    async def long() -> None:
        begun.set()
        await asyncio.sleep(9)

    loop = AgentLoop(ScriptedProvider(Call(name="long")), tool_registry=kit.registry({"long": long}))
    running = asyncio.create_task(stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")]))
    await begun.wait()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert stage.events("WorkflowFailed") == []
    await stage.governance.aclose()
    assert stage.completed("long")["error"]["type"] == "CancelledError"
    assert stage.story()[-1] == "WorkflowFailed"


async def test_a_deadline_does_not_wait_for_a_slow_core(
    make_stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is out of time ends on time."""
    monkeypatch.setattr(ending, "GRACE_SECONDS", 0.05)
    stage = await make_stage()
    slow_core(monkeypatch, 0.5)
    provider = ScriptedProvider(lambda _: pytest.fail("called"))
    monkeypatch.setattr(provider, "complete", lambda request: asyncio.sleep(9))  # a model that hangs

    result = await stage.governance.govern_loop(AgentLoop(provider)).run(
        kit.agent(), [kit.user("go")], limits=AgentRunLimits(timeout_seconds=0.05)
    )

    assert result.termination_reason == "timeout"
    assert stage.events("ActivityCompleted", "WorkflowFailed", "WorkflowCompleted") == []


async def test_a_token_ends_the_run_cleanly(make_stage: Any, kit: Any) -> None:
    """Cancelled through Agent-RT's token, the run returns a result; rows and workflow say so."""
    stage = await make_stage()
    token = CancellationToken()
    begun = asyncio.Event()

    async def long() -> None:
        begun.set()
        await asyncio.sleep(9)

    registry = kit.registry({"long": long})
    loop = stage.governance.govern_loop(
        AgentLoop(ScriptedProvider(Call(name="long")), tool_registry=registry)
    )
    running = asyncio.create_task(loop.run(kit.agent(), [kit.user("go")], cancellation_token=token))
    await begun.wait()

    token.cancel()
    result = await running

    assert result.termination_reason == "cancelled"
    assert stage.completed("long")["status"] == "cancelled"
    assert stage.events("WorkflowCompleted")[0]["status"] == "cancelled"


@pytest.mark.parametrize("where", ["tool", "model", "stream consumer"])
def test_a_keyboard_interrupt_closes_everything(kit: Any, where: str) -> None:
    """Raised anywhere inside, it comes out of ``asyncio.run`` as itself, and nothing is left open."""
    core = LocalCore()

    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    async def on_event(event: Any) -> None:
        interrupt()

    async def main() -> None:
        made = create_openbox_agentrt(core=core, environ={}, install_instrumentation=False)
        async with await made as governance:
            steps: list[Any] = [interrupt] if where == "model" else [Call(name="stop")]
            loop = governance.govern_loop(
                AgentLoop(ScriptedProvider(*steps), tool_registry=kit.registry({"stop": interrupt}))
            )
            if where == "stream consumer":
                await loop.run_streaming(kit.agent(), [kit.user("go")], on_event)
            else:
                await loop.run(kit.agent(), [kit.user("go")])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())

    assert core.orphans() == []
    assert core.open_workflows() == []


async def test_a_late_approval_starts_nothing(make_stage: Any, kit: Any) -> None:
    """The run is over when the person would agree: nothing is left to agree to, and the tool does not run."""
    stage = await make_stage(
        lambda e: "REQUIRE_APPROVAL" if e.get("activity_type") == "risky" and "activity_input" in e else None,
        approval_poll_interval_ms=10,
    )
    governed = stage.governance.wrap_tool_registry(kit.registry({"risky": lambda: pytest.fail("ran")}))

    async with stage.governance.run_scope():
        left_behind = asyncio.create_task(governed.execute(kit.call("risky")))
        approval = await stage.core.await_approval()
    with pytest.raises(UndecidableApprovalError, match="expired already"):
        stage.core.approve(approval)

    with pytest.raises(UngovernedCallError):
        await left_behind


async def test_work_that_outlives_its_run_is_refused(make_stage: Any, kit: Any) -> None:
    """A background task finds its run ended; its open rows were closed with the run."""
    stage = await make_stage()
    registry = kit.registry({"long": lambda: asyncio.sleep(0.1), "next": lambda: pytest.fail("ran")})
    governed = stage.governance.wrap_tool_registry(registry)

    async def background() -> None:
        await governed.execute(kit.call("long"))
        assert current_run() is None
        await governed.execute(kit.call("next"))

    async with stage.governance.run_scope():
        task = asyncio.create_task(background())
        await asyncio.sleep(0.02)
    with pytest.raises(UngovernedCallError, match="'next'"):
        await task

    assert stage.completed("long")["error"] == {
        "type": "AbandonedActivity",
        "message": "run ended before the activity completed",
    }


async def test_a_scope_left_in_another_task(make_stage: Any) -> None:
    """Fixtures and frameworks do that; the run is closed all the same."""
    stage = await make_stage()
    scope = stage.governance.run_scope("hello")
    await asyncio.create_task(scope.__aenter__())

    await scope.__aexit__(None, None, None)

    assert stage.story()[-1] == "WorkflowCompleted completed"


async def test_a_scope_is_entered_once(make_stage: Any) -> None:
    """Ids are never used again."""
    stage = await make_stage()
    scope = stage.governance.run_scope("hello")
    async with scope:
        pass

    with pytest.raises(RuntimeError, match="entered twice"):
        await scope.__aenter__()
    with pytest.raises(RuntimeError, match="never entered"):
        await stage.governance.run_scope().__aexit__(None, None, None)


async def test_an_error_of_the_block_is_raised_as_it_is(make_stage: Any) -> None:
    """Closing the run does not hide it, and Core is told of it."""
    stage = await make_stage()
    error = ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        async with stage.governance.run_scope():
            raise error

    assert caught.value is error
    assert stage.events("WorkflowFailed")[0]["error"] == {"type": "ValueError", "message": "mine"}


async def test_a_failing_finalizer_is_the_outcome(make_stage: Any, kit: Any) -> None:
    """Agent-RT lets its error replace the result; Core is told the same."""

    def broken() -> None:
        raise OSError("finalizer")

    stage = await make_stage()
    loop = AgentLoop(ScriptedProvider("hi"), finalizers=[broken])

    with pytest.raises(OSError, match="finalizer"):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert stage.events("WorkflowFailed")[0]["error"]["type"] == "OSError"


def swallow(kit: Any, way: str, governed: Any) -> Any:
    """Tools that let a refusal of something nested not out."""

    async def nested() -> Any:
        return await governed().execute(kit.call("forbidden"))

    async def catch_all() -> str:
        try:
            await nested()
        except Exception:  # noqa: BLE001
            # A handler that lets nothing out is what the test is about.
            return "never mind"
        return "ok"

    async def gathered() -> str:
        await asyncio.gather(nested(), return_exceptions=True)
        return "gathered"

    async def grouped() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(nested())
        except* Exception:  # noqa: BLE001
            pass  # a task group whose errors are dropped
        return "grouped"

    async def threaded() -> str:
        def work() -> str:
            try:
                asyncio.run(nested())
            except Exception:  # noqa: BLE001
                # Threads lose exceptions all the time.
                return "lost"
            return "ok"

        return await asyncio.to_thread(work)

    return {
        "catch_all": catch_all,
        "gathered": gathered,
        "grouped": grouped,
        "threaded": threaded,
        "raised": nested,
    }[way]


@pytest.mark.parametrize("behavior", ["raise", "return_error"])
@pytest.mark.parametrize("way", ["catch_all", "gathered", "grouped", "threaded", "raised"])
async def test_a_halt_cannot_be_swallowed(make_stage: Any, kit: Any, way: str, behavior: str) -> None:
    """Whoever catches it, the run ends with it, and nothing more starts."""
    stage = await make_stage(lambda e: "HALT" if e.get("activity_type") == "forbidden" else None)
    inner = stage.governance.wrap_tool_registry(kit.registry({"forbidden": lambda: pytest.fail("ran")}))
    registry = kit.registry(
        {"outer": swallow(kit, way, lambda: inner), "after": lambda: pytest.fail("ran")},
        fields={"error_behavior": behavior},
    )
    provider = ScriptedProvider(Call(name="outer"), Call(name="after"), "never said")
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    with pytest.raises(GovernanceHaltError):
        await loop.run(kit.agent(), [kit.user("go")])

    assert len(provider.requests) == 1
    assert stage.completed("outer")["error"]["type"] == "GovernanceHaltError"


async def test_a_halt_that_the_block_swallowed_ends_the_scope(make_stage: Any, kit: Any) -> None:
    """Also outside of loops: leaving the run raises it."""
    stage = await make_stage(lambda e: "HALT" if e.get("activity_type") == "forbidden" else None)
    governed = stage.governance.wrap_tool_registry(kit.registry({"forbidden": lambda: pytest.fail("ran")}))
    reached = []

    async def swallowing() -> None:
        async with stage.governance.run_scope() as run:
            with pytest.raises(GovernanceHaltError):
                await governed.execute(kit.call("forbidden"))
            reached.append(run.halted)

    with pytest.raises(GovernanceHaltError):
        await swallowing()

    assert reached[0] is not None
    assert reached[0].event == "forbidden"
    assert stage.story()[-1] == "WorkflowFailed"
