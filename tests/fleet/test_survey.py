"""How cells stand now, also those that no call has looked at since what was counted in them was over."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from openbox_agentrt.fleet import FleetCell, FleetMove, FleetPlan
from openbox_agentrt.fleet.periods import SECOND
from openbox_agentrt.fleet.redis.line import RedisLine
from openbox_agentrt.fleet.sqlite import SqliteLine
from openbox_agentrt.fleet.steps import Beat, Finish, Reserve, StoreLine
from openbox_agentrt.fleet.survey import survey
from openbox_agentrt.fleet.wire import about, cell_id, encoded, wire

HOUR = 3600 * SECOND
CELLS = (
    FleetCell(kind="sum", name="sum in a window", within=HOUR),
    FleetCell(kind="stamps", name="calls in a window", within=HOUR),
    FleetCell(kind="distinct", name="values in a window", within=HOUR),
    FleetCell(kind="sum", name="sum per hour", per="hour"),
    FleetCell(kind="sum", name="sum that nobody measured", within=HOUR),
    FleetCell(kind="sum", name="sum for ever"),
)


def count(line: StoreLine, number: int, now: int) -> None:
    """Make one call, at a time of the store, that moves every cell by one."""
    moves = tuple(
        FleetMove(
            cell=at,
            amount=None if "nobody" in cell.name else 1,
            deferred="nobody" in cell.name,
            values=(f"v{number}",) if cell.kind == "distinct" else None,
        )
        for at, cell in enumerate(CELLS)
    )
    plan = FleetPlan(cells=CELLS, moves=moves)
    sent, guards = wire(plan, now)
    lease, ids = f"w{number}.1", tuple(map(cell_id, CELLS))
    join = Beat(worker=f"w{number}", lease_us=30 * SECOND, join=True)
    reserve = Reserve(lease=lease, worker=f"w{number}", plan=sent, guards=guards, started=True)
    answers = line.run([join, reserve, Finish(lease=lease, worker=f"w{number}", how="commit", cells=ids)])
    assert [answer.said for answer in answers] == ["ok"] * 3
    line.tell({name: encoded(told) for name, told in about(plan).items()})


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_what_is_over_counts_no_more(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Whoever looks is told what the next call will find, and not what the last one left."""
    now = time.time_ns() // 1000
    clock = [now - 2 * HOUR]
    line: StoreLine
    if store == "redis":
        server, name = request.getfixturevalue("shared_server").url, uuid.uuid4().hex
        url = f"{server}?namespace={name}"
        line = RedisLine(server, name, timeout_seconds=20, clock=lambda: clock[0])
    else:
        url = f"sqlite:///{tmp_path / 'fleet.db'}"
        line = SqliteLine(tmp_path / "fleet.db", timeout_seconds=20, clock=lambda: clock[0])

    with closing(line), closing(survey(url)) as store_now:
        count(line, 1, clock[0])
        told = {cell.about.name: cell for cell in store_now.cells() if cell.about is not None}
        assert {name: cell.spent for name, cell in told.items() if cell.spent} == {"sum for ever": 1}
        assert not [name for name, cell in told.items() if cell.unread or cell.period]

        clock[0] = now
        count(line, 2, now)
        told = {cell.about.name: cell for cell in store_now.cells() if cell.about is not None}
        spent = {name: cell.spent for name, cell in told.items()}
        assert spent == {cell.name: 1 for cell in CELLS} | {
            "sum for ever": 2,
            "sum that nobody measured": 0,
        }
        assert [name for name, cell in told.items() if cell.unread] == ["sum that nobody measured"]
