"""How often a run asks Core, and how often it waits for that. Counted in steps, without a clock."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agents import SHAPES, Shape
from benchmarks.round_trips import Telemetry, count
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Fault, FaultyCore

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"

EXPECTED = {
    "no tools": (5, 5),
    "1 call": (9, 9),
    "10 calls": (45, 45),
    "100 calls": (405, 405),
    "10 calls in parallel": (27, 9),
    "10 calls, streamed": (45, 45),
}
"""Requests in total, and on the critical path."""


@pytest.mark.parametrize("telemetry", ["inline", "ordered"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
async def test_round_trips_of_a_run(shape: Shape, telemetry: Telemetry) -> None:
    """Two for each activity, three for the run; calls side by side wait together."""
    assert await count(shape, telemetry) == EXPECTED[shape.name]


def test_the_page_says_the_same() -> None:
    """The numbers of the docs are those that are counted."""
    table = PAGE.read_text(encoding="utf-8").split("<!-- round-trips -->")[1]

    for name, (total, critical) in EXPECTED.items():
        row = re.search(rf"^\| {re.escape(name)} \|.*$", table, re.MULTILINE)
        assert row is not None
        assert [cell.strip() for cell in row[0].split("|")[3:6]] == [str(total), str(critical), str(critical)]


async def test_nothing_is_sent_twice(make_stage: Any) -> None:
    """Core gets each event once."""
    stage = await make_stage()

    await SHAPES[2].run(stage.governance.govern_loop)

    assert len(stage.core.records()) == 45
    assert all(record.same_as is None for record in stage.core.records())


class CountingCore(FaultyCore):
    """A Core that knows how many connections were opened."""

    connections = 0

    async def _converse(self, *connection: Any) -> None:
        self.connections += 1
        await super()._converse(*connection)


async def test_gates_at_the_same_time_share_connections() -> None:
    """Many runs at once open as many connections as there are turns, and what comes later opens none."""
    from openbox_agentrt import create_openbox_agentrt
    from openbox_agentrt._core.transport.clients import AT_ONCE

    with LocalCore() as local, CountingCore(local) as core, core.always(Fault.late(0.01)):
        governance = await create_openbox_agentrt(
            api_url=core.url,
            api_key=core.api_key,
            on_api_error="fail_closed",
            install_instrumentation=False,
            validate=False,
            environ={},
        )
        async with governance:
            runs = (SHAPES[0].run(governance.govern_loop) for _ in range(2 * AT_ONCE))
            await asyncio.gather(*runs)
            together = core.connections
            for _ in range(5):
                await SHAPES[0].run(governance.govern_loop)

            assert len(core.requests) == 5 * (2 * AT_ONCE + 5)
            assert together <= AT_ONCE
            assert core.connections == together
