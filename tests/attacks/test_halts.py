"""What a HALT stops, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from openbox_agentrt import GovernanceHaltError, create_openbox_agentrt
from openbox_agentrt._core.transport.direct import LocalLine
from openbox_agentrt.testing import Fault, FaultyCore


@pytest.mark.leaves_rows_open("core never hears of what it is asked first")
async def test_a_halt_that_was_made_up_here_stops_one_call() -> None:
    """An answer that is not understood may count as HALT. It is no decision of Core about the run."""
    with FaultyCore() as faulty:
        governance = await create_openbox_agentrt(
            environ={},
            api_url=faulty.url,
            api_key=faulty.api_key,
            on_unknown_verdict="halt",
            install_instrumentation=False,
        )
        async with governance, governance.run_scope() as run:
            faulty.plan(Fault.value({"verdict": "quarantine"}), path="/evaluate")
            with pytest.raises(GovernanceHaltError):
                async with governance.activity("first", [1]):
                    pytest.fail("it ran")
            async with governance.activity("second", [1]):
                pass
            assert run.halted is None


@pytest.mark.leaves_rows_open("core never hears of what it is asked first")
@pytest.mark.parametrize("patch", ["[" * 600 + "]" * 600, '"\\ud83d"', "NaN"], ids=["deep", "half", "nan"])
async def test_a_halt_counts_whatever_comes_with_it(patch: str) -> None:
    """What cannot be read beside the verdict takes nothing from it."""
    body = f'{{"verdict": "halt", "action": "stop", "patch": {{"new_input": {patch}}}}}'
    with FaultyCore() as faulty:
        governance = await create_openbox_agentrt(
            environ={}, api_url=faulty.url, api_key=faulty.api_key, install_instrumentation=False
        )
        ran: list[str] = []

        async def swallow() -> None:
            async with governance.run_scope():
                faulty.plan(Fault.text(body.encode()), path="/evaluate")
                for name in ("first", "second"):
                    with pytest.raises(GovernanceHaltError):
                        async with governance.activity(name, [1]):
                            ran.append(name)

        async with governance:
            with pytest.raises(GovernanceHaltError):
                await swallow()
        assert ran == []


async def test_a_halted_run_starts_nothing_that_core_is_not_asked_about(make_stage: Any, kit: Any) -> None:
    """Where a gate is switched off, an earlier HALT still counts."""

    def policy(event: Mapping[str, Any]) -> str | None:
        return "HALT" if event.get("activity_type") == "bad" else None

    ran: list[str] = []
    stage = await make_stage(policy, send_tool_start_event=False)
    registry = stage.governance.wrap_tool_registry(kit.registry({"tool": lambda: ran.append("tool")}))

    async def swallow() -> None:
        async with stage.governance.run_scope():
            with pytest.raises(GovernanceHaltError):
                async with stage.governance.activity("bad", [1]):
                    pytest.fail("it ran")
            with pytest.raises(GovernanceHaltError):
                await registry.execute(kit.call("tool"))

    with pytest.raises(GovernanceHaltError):
        await swallow()
    assert ran == []


async def test_a_halt_counts_for_what_core_is_being_asked_about(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Core allows the slow call, but by then a parallel one has halted the run."""
    carry, asked = LocalLine.carry, asyncio.Event()

    async def slowly(self: LocalLine, method: str, path: str, headers: Any, body: bytes) -> Any:
        answer = await carry(self, method, path, headers, body)
        if b"ActivityStarted" in body and b"slow" in body:
            asked.set()
            await asyncio.sleep(0.1)
        return answer

    monkeypatch.setattr(LocalLine, "carry", slowly)
    stage = await make_stage(lambda event: "HALT" if event.get("activity_type") == "bad" else None)
    ran: list[str] = []

    async def activity(name: str) -> None:
        async with stage.governance.activity(name, [1]):
            ran.append(name)

    async def side_by_side() -> None:
        async with stage.governance.run_scope():
            slow = asyncio.create_task(activity("slow"))
            await asked.wait()
            outcomes = await asyncio.gather(activity("bad"), slow, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [GovernanceHaltError] * 2

    with pytest.raises(GovernanceHaltError):
        await side_by_side()
    assert ran == []


@pytest.mark.leaves_rows_open("core never hears of what it is asked first")
async def test_a_halt_is_no_error_for_the_model(kit: Any) -> None:
    """Also one that does not latch, where a refused tool is told to the model."""
    with FaultyCore() as faulty:
        governance = await create_openbox_agentrt(
            environ={},
            api_url=faulty.url,
            api_key=faulty.api_key,
            on_unknown_verdict="halt",
            on_tool_block="return_error",
            install_instrumentation=False,
        )
        registry = governance.wrap_tool_registry(kit.registry({"tool": lambda: pytest.fail("it ran")}))
        async with governance, governance.run_scope():
            faulty.plan(Fault.value({"verdict": "quarantine"}), path="/evaluate")
            with pytest.raises(GovernanceHaltError):
                await registry.execute(kit.call("tool"))


async def test_a_halt_around_a_nested_run_stops_it_too(make_stage: Any) -> None:
    """While the inner run works, a parallel call of the outer one is halted."""
    stage = await make_stage(lambda event: "HALT" if event.get("activity_type") == "bad" else None)
    governance = stage.governance
    inside, halted = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def nested() -> None:
        async with governance.run_scope():
            inside.set()
            await halted.wait()
            async with governance.activity("inner"):
                ran.append("inner")

    async def outer() -> None:
        async with governance.run_scope():
            working = asyncio.ensure_future(nested())
            await inside.wait()
            with pytest.raises(GovernanceHaltError):
                async with governance.activity("bad"):
                    ran.append("bad")
            halted.set()
            with pytest.raises(GovernanceHaltError):
                await working

    with pytest.raises(GovernanceHaltError):
        await outer()
    assert ran == []
    assert [e["activity_type"] for e in stage.events("ActivityStarted")] == ["bad"]
