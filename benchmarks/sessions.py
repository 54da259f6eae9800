"""Opening a session, by number of contracts, and what ten thousand open ones hold."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import Any

import openbox_agentrt.acel as ours

from .held import held_by
from .tables import Row, Table
from .timing import OURS, interleaved

SIZES = (20, 1000, 10_000)
OPEN = 10_000
MANY_CALLS = 20_000


def measure(quick: bool) -> Table:
    """Time and memory of a session that is opened, of its first call, and of its first refusal."""
    rows: list[Row] = []
    for size in (2, 20) if quick else SIZES:
        makers: dict[str, Callable[[], Any]] = {OURS: _ours(size), "acel-core": _acel(size)}
        rows += _timed(f"open, {size:,} contracts", makers, quick)
        firsts = {name: _with_first_call(name, make) for name, make in makers.items()}
        rows += _timed(f"open and call once, {size:,} contracts", firsts, quick)
    open_sessions = 20 if quick else OPEN
    for name, make in {OURS: _ours(20), "acel-core": _acel(20)}.items():
        for case, one in {"open": make, "open, one call each": _with_first_call(name, make)}.items():
            held = _held(one, open_sessions)
            rows.append((f"{open_sessions:,} {case}, 20 contracts", name, "", "", held, ""))
    rows += _refusals(50 if quick else MANY_CALLS)
    return Table(
        name="sessions",
        title="Sessions",
        columns=("case", "who", "median us", "p95 us", "KiB each", "ratio"),
        rows=rows,
        notes=(
            "Ours are opened with one tuple of contracts, compiled once; acel-core gives each its own."
            " The p95 of the refusals is the slowest of five, in a process that has refused before. The first"
            " of a session plans the tool and makes what keeps violations."
        ),
    )


def _timed(case: str, makers: dict[str, Callable[[], Any]], quick: bool) -> list[Row]:
    spreads = interleaved(makers, quick=quick, rounds=9, most=2000)
    base = spreads[OURS].median
    return [
        (case, name, found.median / 1e3, found.p95 / 1e3, _held(makers[name], 5), found.median / base)
        for name, found in spreads.items()
    ]


def _refusals(calls: int) -> list[Row]:
    """Time the first refusal and the second, each after so many calls: it records the last of them."""
    firsts: list[float] = []
    later: list[float] = []
    # What a process pays for its very first refusal is what it loads, see `benchmarks startup`.
    ours.Session(contracts=(ours.must_precede("backup", "delete"),)).reserve("delete")
    for _ in range(5):
        session = ours.Session(contracts=(ours.must_precede("backup", "delete"),), max_trace=1000)
        for kept in (firsts, later):
            for number in range(calls):
                session.reserve("read", {"id": number}).commit({"ok": True})
            began = perf_counter_ns()
            session.reserve("delete", {"id": 7})
            kept.append((perf_counter_ns() - began) / 1e3)
    return [
        (f"a refusal after {calls:,} calls, the first", OURS, median(firsts), max(firsts), "", ""),
        (f"a refusal after {calls:,} more, the second", OURS, median(later), max(later), "", ""),
    ]


def _ours(size: int) -> Callable[[], Any]:
    contracts = tuple(ours.at_most_n_times(f"tool_{number}", 10**9) for number in range(size))
    return lambda: ours.Session(contracts=contracts)


def _acel(size: int) -> Callable[[], Any]:
    import acel

    def make() -> Any:
        session = acel.Session()
        for number in range(size):
            session.add_contract(acel.at_most_n_times(f"tool_{number}", 10**9))
        return session

    return make


def _with_first_call(name: str, make: Callable[[], Any]) -> Callable[[], Any]:
    def ours_once() -> Any:
        session = make()
        session.reserve("tool_0", {"id": 7}).commit({"ok": True})
        return session

    def acel_once() -> Any:
        session = make()
        session.postcheck("tool_0", session.precheck("tool_0", {"id": 7}), {"ok": True})
        return session

    return ours_once if name == OURS else acel_once


def _held(make: Callable[[], Any], count: int) -> float:
    make()
    return held_by(lambda: [make() for _ in range(count)]) / count / 1024
