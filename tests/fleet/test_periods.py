"""Calendar periods: where they begin and end, and that a cell begins anew with them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.calendar import Per
from openbox_agentrt.fleet import FleetCell, FleetConfigError, FleetGuard, FleetMove, FleetPlan
from openbox_agentrt.fleet.periods import SECOND, edges_around, zone
from openbox_agentrt.fleet.plan import CellKind
from openbox_agentrt.fleet.steps import Beat, Reserve, StepAnswer, StoreLine
from openbox_agentrt.fleet.wire import wire

BERLIN = "Europe/Berlin"
ZONES = ["UTC", BERLIN, "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Santiago"]


def at(text: str, tz: str = BERLIN) -> int:
    """Give an instant by the clocks of a zone, in microseconds."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz))
    return int(moment.timestamp()) * SECOND + moment.microsecond


@pytest.mark.parametrize(
    ("per", "now", "start", "end"),
    [
        ("day", "2026-03-29T12:00", "2026-03-29T00:00", "2026-03-30T00:00"),
        ("day", "2026-10-25T23:59:59.999999", "2026-10-25T00:00", "2026-10-26T00:00"),
        ("day", "2026-05-05T00:00", "2026-05-05T00:00", "2026-05-06T00:00"),
        ("week", "2026-11-29T23:59", "2026-11-23T00:00", "2026-11-30T00:00"),
        ("week", "2026-11-30T00:00", "2026-11-30T00:00", "2026-12-07T00:00"),
        ("month", "2026-12-31T23:00", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("hour", "2026-05-05T12:59:59", "2026-05-05T12:00", "2026-05-05T13:00"),
    ],
)
def test_a_period_is_what_the_zones_calendar_calls_one(per: Per, now: str, start: str, end: str) -> None:
    """A day of a change of the clocks has 23 or 25 hours."""
    edges = edges_around(per, BERLIN, at(now))

    assert edges[1:3] == (at(start), at(end))


@given(
    per=st.sampled_from(["hour", "day", "week", "month"]),
    tz=st.sampled_from(ZONES),
    now=st.integers(1_500_000_000, 2_500_000_000),
)
def test_now_is_always_within_the_second_period(per: Per, tz: str, now: int) -> None:
    """The edges rise, and the period before and the two after are told as well."""
    edges = edges_around(per, tz, now * SECOND)

    assert len(edges) == 5
    assert list(edges) == sorted(set(edges))
    assert edges[1] <= now * SECOND < edges[2]


def test_a_zone_that_is_none_is_said() -> None:
    """With an example of one."""
    with pytest.raises(FleetConfigError, match="no time zone 'Berlin'"):
        zone("Berlin")


@pytest.mark.parametrize(
    ("kind", "guard"),
    [
        ("sum", FleetGuard(kind="spend", cell=0, n=500, amount=501)),
        ("sum", FleetGuard(kind="spend", cell=0, n=0)),
        ("tally", FleetGuard(kind="cap", cell=0, n=0)),
        ("distinct", FleetGuard(kind="distinct", cell=0, n=1, values=("a", "b"))),
    ],
    ids=["amount", "measured later", "count", "values"],
)
def test_what_never_fits_is_not_told_to_wait(
    clocked: tuple[StoreLine, list[int]], kind: CellKind, guard: FleetGuard
) -> None:
    """The next day changes nothing for it."""
    line, now = clocked
    now[0] = at("2026-05-05T12:00")
    line.run([Beat(worker="w", lease_us=10**13, join=True)])
    cell = FleetCell(kind=kind, name="paid", per="day", tz=BERLIN)
    sent, guards = wire(FleetPlan(cells=(cell,), guards=(guard,)), now[0])

    refused = line.run([Reserve(lease="a", worker="w", plan=sent, guards=guards)])[0]

    assert refused.said == "no"
    assert (refused.broken[0].free_at, refused.broken[0].period_end) == (None, at("2026-05-06T00:00"))


def test_a_cell_begins_anew_with_its_day(clocked: tuple[StoreLine, list[int]]) -> None:
    """One millisecond before midnight the budget is used up; at midnight it is whole again, on time."""
    line, now = clocked
    now[0] = at("2026-03-28T23:59:59.999")
    line.run([Beat(worker="w", lease_us=10**13, join=True)])
    cell = FleetCell(kind="sum", name="paid", per="day", tz=BERLIN, scale=2)
    plan = FleetPlan(
        cells=(cell,),
        guards=(FleetGuard(kind="spend", cell=0, n=500, amount=500),),
        moves=(FleetMove(cell=0, amount=500),),
    )

    def reserve(lease: str) -> StepAnswer:
        sent, guards = wire(plan, now[0])
        return line.run([Reserve(lease=lease, worker="w", plan=sent, guards=guards)])[0]

    assert reserve("a").said == "ok"
    refused = reserve("b")
    midnight = at("2026-03-29T00:00")
    assert (refused.said, refused.broken[0].free_at) == ("no", midnight)
    now[0] = midnight
    assert reserve("c").said == "ok"
    # The day on which the clocks change is an hour shorter.
    assert reserve("d").broken[0].free_at == midnight + 23 * 3600 * SECOND
