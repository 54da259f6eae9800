"""Connecting to a store, making its tables and joining is nothing that a call pays for out of its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.fleet import FleetConfigError, RedisFleet, SqliteFleet
from openbox_agentrt.fleet.plan import FleetPlan
from openbox_agentrt.fleet.sqlite import SqliteLine
from openbox_agentrt.fleet.steps import Beat, NoAnswerError, Step, StepAnswer, StoreLine
from tests.fleet.redis_server import RedisServer

LOOKING = Beat(worker="looking", lease_us=0)
DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}


class SlowToConnect(SqliteFleet):
    """A store whose first trips take longer than a call may."""

    def _connect(self) -> StoreLine:
        return _SlowLine(self.path, timeout_seconds=20)


class _SlowLine(SqliteLine):
    connected = False

    def run(self, steps: Sequence[Step]) -> list[StepAnswer]:
        if not self.connected:
            time.sleep(1.2)
            self.connected = True
        return super().run(steps)


@pytest.fixture
def slow(tmp_path: Path) -> Any:
    with closing(SlowToConnect(tmp_path / "fleet.db", timeout_seconds=1.0)) as fleet:
        yield fleet


async def test_the_first_call_waits_for_the_connection_besides(slow: SlowToConnect) -> None:
    """And the event loop goes on meanwhile."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    granted = await slow.areserve(FleetPlan(cells=(), guards=(), moves=()))
    turning.cancel()

    assert granted.lease is not None
    assert turns > 100


def test_a_thread_waits_for_it_as_well(slow: SlowToConnect) -> None:
    """So a session alone is not refused its first call."""
    assert Session(contracts=[at_most_n_times("pay", 1, **DAY)], fleet=slow).reserve("pay").allowed


def test_a_store_that_cannot_be_reached_is_not_waited_for_longer() -> None:
    """The first attempt has failed then, and the call is refused with the reason."""
    with (
        closing(SqliteFleet("/dev/null/fleet.db", timeout_seconds=20)) as fleet,
        pytest.raises(FleetConfigError, match="folder"),
    ):
        fleet.reserve(FleetPlan(cells=(), guards=(), moves=()))


def test_a_server_is_reached_again_however_often_it_was_lost(server: RedisServer) -> None:
    """A worker that lives for months has lost it more than a hundred times, and one in an outage soon has."""
    with closing(RedisFleet(server.url, timeout_seconds=20)) as fleet:
        line = fleet._connect()
        server.kill()
        for _ in range(150):
            with pytest.raises(NoAnswerError):
                line.run([LOOKING])
        server.start()

        assert [answer.said for answer in line.run([LOOKING])] == ["dead"]
        line.close()


async def test_a_governance_connects_when_it_is_made(make_stage: Any, tmp_path: Path) -> None:
    """Before anything is asked of the store."""
    path = tmp_path / "fleet.db"
    await make_stage(contracts=[at_most_n_times("pay", 1, **DAY)], fleet=f"sqlite:///{path}")

    await eventually(path.exists)


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it never did")
