"""What it costs to refuse, after more and more calls in the session."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import openbox_agentrt.acel as ours

from .tables import Chart, Row, Table
from .timing import OURS, interleaved

LENGTHS = (100, 1000, 10_000, 100_000)


def measure(quick: bool) -> Table:
    """Time and memory of a refusal, its record included."""
    rows: list[Row] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for length in (10, 50) if quick else LENGTHS:
        calls = {OURS: _ours(length), "acel-core": _acel(length)}
        kept = {name: _allocated(call) for name, call in calls.items()}
        spreads = interleaved(calls, quick=quick, rounds=3, most=30)
        for name, found in spreads.items():
            ratio = found.median / spreads[OURS].median
            case = f"after {length:,} calls"
            rows.append((case, name, found.median / 1e3, found.p95 / 1e3, kept[name] / 1024, ratio))
            lines.setdefault(name, []).append((float(length), found.median / 1e3))
    return Table(
        name="refusal",
        title="A refusal, by length of the session",
        columns=("case", "who", "median us", "p95 us", "kept KiB", "ratio"),
        rows=rows,
        notes="A refusal of ours carries the last 20 calls and the hash of all; acel-core copies the trace.",
        chart=Chart(x="calls in the session", y="microseconds a refusal", lines=lines),
    )


def _ours(length: int) -> Callable[[], object]:
    session = ours.Session(contracts=[ours.must_precede("backup", "delete")])
    for _ in range(length):
        session.reserve("read", {"id": 7}).commit({"ok": True})
    return lambda: session.reserve("delete", {"id": 7})


def _acel(length: int) -> Callable[[], object]:
    import acel

    session = acel.Session()
    session.add_contract(acel.must_precede("backup", "delete"))
    for _ in range(length):
        session.postcheck("read", session.precheck("read", {"id": 7}), {"ok": True})
    return lambda: session.precheck("delete", {"id": 7})


def _allocated(call: Callable[[], object]) -> int:
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
