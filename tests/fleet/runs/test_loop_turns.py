"""Whatever a store does to it, the event loop goes on: no trip ends before it turned a hundred times."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError
from openbox_agentrt.acel import Session, at_most_n_times, must_precede, never_after
from openbox_agentrt.acel.events import RUN_ENDED
from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.fleet.sqlite import SqliteLine
from openbox_agentrt.fleet.steps import Step, StepAnswer, StoreLine
from openbox_agentrt.testing import Call, ScriptedProvider

DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}
TURNS = 100


class Waiting(SqliteFleet):
    """
    A store that hangs in every trip until the event loop has turned a hundred times.

    Attributes:
        turns: How often the loop has turned, which `turning` counts.
        trips: How many trips waited for that.
        stuck: How many waited in vain: the loop stood still as long as they did.
    """

    turns = trips = stuck = 0
    _task: asyncio.Task[None] | None = None

    def is_turning(self) -> bool:
        """Tell whether the turns are counted."""
        return self._task is not None

    def _connect(self) -> StoreLine:
        return _WaitingLine(self)

    @asynccontextmanager
    async def turning(self) -> AsyncIterator[None]:
        """Count the turns of the loop."""

        async def turn() -> None:
            while True:
                self.turns += 1
                await asyncio.sleep(0)

        self._task = task = asyncio.create_task(turn())
        try:
            yield
        finally:
            self._task = None
            task.cancel()


class _WaitingLine(SqliteLine):
    def __init__(self, fleet: Waiting) -> None:
        super().__init__(fleet.path, timeout_seconds=20)
        self._fleet = fleet

    def run(self, steps: Sequence[Step]) -> list[StepAnswer]:
        fleet = self._fleet
        if fleet.is_turning() and threading.current_thread().name == "openbox-fleet":
            needed, until = fleet.turns + TURNS, time.monotonic() + 10
            while fleet.is_turning() and fleet.turns < needed:
                time.sleep(0.0005)
                if time.monotonic() > until:
                    fleet.stuck += 1
                    break
            fleet.trips += 1
        return super().run(steps)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Waiting]:
    fleet = Waiting(tmp_path / "fleet.db", timeout_seconds=60)
    yield fleet
    await fleet.aclose()


async def test_every_step_of_a_call(fleet: Waiting) -> None:
    """The first of all, which connects; reserve, judge again, start, and each end."""
    session = Session(contracts=[never_after("pay", "close", recheck=True, **DAY)], fleet=fleet)
    async with fleet.turning():
        for end in ("commit", "abort", "lose"):
            call = await session.areserve("pay")
            assert await call.arecheck()
            assert await call.astart()
            getattr(call, end)()

    assert fleet.trips >= 9
    assert fleet.stuck == 0


async def test_every_step_of_a_durable_session(make_stage: Any, fleet: Waiting) -> None:
    """To take it, to write it and to let go of it, with and without a run around it."""
    session = Session(contracts=[at_most_n_times("pay", 9)], fleet=fleet, durable=True, session_id="c-1")
    stage = await make_stage(contracts=[at_most_n_times("pay", 9)], fleet=fleet, sessions="durable")
    async with fleet.turning():
        await session.ahold()
        call = await session.areserve("pay")
        assert await call.astart()
        call.commit("paid")
        await session.acall("pay", result="paid")
        async with stage.governance.run_scope(session_id="c-2"), stage.governance.activity("pay"):
            pass
        await stage.governance.aend_session("c-2")

    assert fleet.trips >= 6
    assert fleet.stuck == 0


async def test_a_governed_run(make_stage: Any, kit: Any, fleet: Waiting) -> None:
    """Prompt, model, tool, a refusal, and the end of the run, which is told and not waited for."""
    rules = [
        at_most_n_times("pay", 1, **DAY),
        at_most_n_times("llm_call", 99, **DAY),
        must_precede(RUN_ENDED, "report", **DAY),
    ]
    stage = await make_stage(contracts=rules, fleet=fleet, on_tool_block="return_error")

    async def pay() -> str:
        return "paid"

    provider = ScriptedProvider(Call(name="pay", arguments={}), Call(name="pay", arguments={}), "done")
    loop = AgentLoop(provider, tool_registry=kit.registry({"pay": pay}))
    async with fleet.turning():
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("pay")])
        with pytest.raises(ContractRefusedError):
            async with stage.governance.run_scope(), stage.governance.activity("pay"):
                pass

    assert fleet.trips >= 5
    assert fleet.stuck == 0
