"""Windows, clocks that jump, and steps that arrive late."""

from __future__ import annotations

import logging
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.fleet import FleetCell, FleetGuard, FleetMove, FleetPlan
from openbox_agentrt.fleet.client.membership import Membership
from openbox_agentrt.fleet.judge.in_memory import MemoryLine
from openbox_agentrt.fleet.periods import SECOND
from openbox_agentrt.fleet.steps import Beat, Finish, Mend, Reserve, StepAnswer, StoreLine
from openbox_agentrt.fleet.wire import cell_id, wire

BEGIN = 1_796_024_859_715_449
WINDOW = 100 * SECOND


class Store:
    """A store with a clock that is set by hand."""

    def __init__(self, line: StoreLine, now: list[int]) -> None:
        self.line = line
        self.now = now
        line.run([Beat(worker="w", lease_us=10**13, join=True)])
        self._leases = 0

    def reserve(self, plan: FleetPlan, *, lease: str = "", by: int | None = None) -> StepAnswer:
        self._leases += 1
        sent, guards = wire(plan, self.now[0])
        return self.line.run(
            [
                Reserve(
                    lease=lease or f"l{self._leases}",
                    worker="w",
                    plan=sent,
                    guards=guards,
                    started=True,
                    by=by,
                )
            ]
        )[0]

    def finish(self, plan: FleetPlan, how: str, lease: str = "") -> StepAnswer:
        cells = tuple(map(cell_id, plan.cells))
        name = lease or f"l{self._leases}"
        return self.line.run([Finish(lease=name, worker="w", how=how, cells=cells)])[0]  # type: ignore[arg-type]


@pytest.fixture
def store(clocked: tuple[StoreLine, list[int]]) -> Store:
    line, now = clocked
    now[0] = BEGIN
    return Store(line, now)


def window(kind: str, n: int = 1) -> FleetPlan:
    cell = FleetCell(kind=kind, name="w", within=WINDOW)  # type: ignore[arg-type]  # a kind of cell
    guard = FleetGuard(kind="cap", cell=0, n=n)
    return FleetPlan(cells=(cell,), guards=(guard,), moves=(FleetMove(cell=0),))


def need(n: int) -> FleetPlan:
    cell = FleetCell(kind="marks", name="m", within=WINDOW)
    return FleetPlan(cells=(cell,), guards=(FleetGuard(kind="need", cell=0, n=n),))


MARK = FleetPlan(cells=need(1).cells, moves=(FleetMove(cell=0),))


def test_a_reserve_that_arrives_after_its_commit_counts_once(store: Store) -> None:
    """Its id is used up."""
    plan = window("stamps", 2)
    store.reserve(plan, lease="a")
    store.finish(plan, "commit", "a")

    assert store.reserve(plan, lease="a").state == "c"
    assert store.reserve(plan).said == "ok"
    assert store.reserve(plan).said == "no"


def test_a_reserve_that_arrives_after_its_undo_reserves_nothing(store: Store) -> None:
    """Whoever gave it up has undone it before the store had it."""
    plan = window("stamps", 1)
    store.finish(plan, "undo", "a")

    assert store.reserve(plan, lease="a").said == "gone"
    assert store.reserve(plan).said == "ok"


def test_what_a_dead_worker_reserved_is_free_after_its_lease_and_not_before(store: Store) -> None:
    """Who is refused is told whose lease is over, and settles it."""
    plan = window("stamps", 1)
    cells = tuple(map(cell_id, plan.cells))
    sent, guards = wire(plan, store.now[0])
    store.line.run([Beat(worker="dying", lease_us=30 * SECOND, join=True)])
    store.line.run([Reserve(lease="d", worker="dying", plan=sent, guards=guards)])
    settle = Finish(lease="d", worker="dying", how="settle", cells=cells)

    store.now[0] += 30 * SECOND
    assert store.reserve(plan).dead == ()
    assert store.line.run([settle])[0].said == "alive"
    store.now[0] += 1
    assert store.reserve(plan).dead == ("dying",)
    assert store.line.run([settle])[0].state == "g"
    assert store.reserve(plan).said == "ok"


def test_a_reserve_that_nobody_waits_for_any_more_reserves_nothing(store: Store) -> None:
    """It says until when it is wanted."""
    assert store.reserve(window("stamps"), by=BEGIN - 1).said == "stale"
    assert store.reserve(window("stamps"), by=BEGIN).said == "ok"


def test_a_clock_that_jumps_ahead_is_shown_and_mended(store: Store) -> None:
    """The cell stands still until then, or until somebody says that it shall go on."""
    plan = window("stamps", 1)
    store.reserve(plan)
    store.now[0] = BEGIN + 3600 * SECOND
    store.reserve(plan)
    store.now[0] = BEGIN + 2 * SECOND

    refused = store.reserve(plan)
    assert refused.said == "no"
    assert refused.broken[0].free_at == BEGIN + 3600 * SECOND + WINDOW + 1
    store.line.run([Mend(cell=cell_id(plan.cells[0]))])

    assert store.reserve(plan).broken[0].free_at == BEGIN + 2 * SECOND + WINDOW + 1
    store.now[0] += WINDOW + 1
    assert store.reserve(plan).said == "ok"


def test_a_worker_says_that_the_stores_clock_jumped(caplog: pytest.LogCaptureFixture) -> None:
    """Beside its own, which goes on evenly; both ways, and not for a moment's wait."""
    own = [1000.0]
    membership = Membership(30, monotonic=lambda: own[0])
    with caplog.at_level(logging.WARNING):
        for seconds, store_seconds in [(0, 0), (1, 1), (3, 7.9), (4, 3604), (5, 5)]:
            own[0] = 1000.0 + seconds
            now = BEGIN + int(store_seconds * SECOND)
            membership.heard(membership.worker, StepAnswer(said="ok", now=now, generation="g"))

    assert membership.counts.clock_jumps == 2
    assert "fleet clock jumped: the store's clock went +3595 s" in caplog.text


@given(
    n=st.integers(1, 4),
    pauses=st.lists(st.integers(0, 40 * SECOND), min_size=1, max_size=30),
    seed=st.integers(0, 100),
)
def test_what_allows_in_a_window_is_never_laxer_than_exact(n: int, pauses: list[int], seed: int) -> None:
    """Buckets may forget a success too early, and never keep one too long."""
    now, rnd = [BEGIN], random.Random(seed)
    store = Store(MemoryLine(clock=lambda: now[0]), now)
    done: list[int] = []
    for pause in pauses:
        now[0] += pause
        if rnd.random() < 0.5:
            store.reserve(MARK)
            store.finish(MARK, "commit")
            done.append(now[0])
        exact = sum(now[0] - moment <= WINDOW for moment in done) >= n
        said = store.reserve(need(n)).said == "ok"
        assert exact or not said
        # One success is kept exactly, and so are those well within the window.
        if n == 1 or sum(now[0] - moment <= WINDOW - WINDOW // 50 for moment in done) >= n:
            assert said == exact or n > 1


@given(n=st.integers(1, 5), pauses=st.lists(st.integers(0, 40 * SECOND), min_size=1, max_size=40))
def test_what_limits_in_a_window_is_never_laxer_than_exact(n: int, pauses: list[int]) -> None:
    """Buckets may keep a call too long, by a hundredth of the window, and never forget one too early."""
    now = [BEGIN]
    store = Store(MemoryLine(clock=lambda: now[0]), now)
    starts: list[int] = []
    for pause in pauses:
        now[0] += pause
        said = store.reserve(window("stamps", n)).said == "ok"
        if said:
            assert sum(now[0] - moment <= WINDOW for moment in starts) < n
            starts.append(now[0])
        else:
            assert sum(now[0] - moment <= WINDOW + WINDOW // 100 + 1 for moment in starts) >= n
