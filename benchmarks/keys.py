"""A contract that holds for each value of an argument separately, by number of values."""

from __future__ import annotations

import random
from collections.abc import Callable

import openbox_agentrt.acel as ours

from .tables import TIMED, Chart, Row, Table, timed_rows
from .timing import interleaved

COUNTS = (1, 100, 10_000, 100_000)
TEMPLATES: dict[str, Callable[[], ours.TemporalContract]] = {
    "at_most_n_times": lambda: ours.at_most_n_times("pay", 10**9, key="account"),
    "must_precede": lambda: ours.must_precede("check", "pay", key="account"),
    "at_most_total": lambda: ours.at_most_total("pay", "amount", 10**15, key="account"),
}


def measure(quick: bool) -> Table:
    """The gate of each template, once that many accounts have been seen."""
    rows: list[Row] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    counts = (1, 20) if quick else COUNTS
    for count in counts:
        calls = {name: _call(make(), count) for name, make in TEMPLATES.items()}
        spreads = interleaved(calls, quick=quick, most=5000)
        rows += timed_rows(f"{count:,} keys", spreads, against="at_most_n_times")
        for name, found in spreads.items():
            lines.setdefault(name, []).append((float(count), found.median / 1e3))
    return Table(
        name="keys",
        title="Parametric contracts, by number of keys",
        columns=TIMED,
        rows=rows,
        notes="The ratio is to at_most_n_times. acel-core has no keys.",
        chart=Chart(x="values of the key", y="microseconds a call", lines=lines),
    )


def _call(contract: ours.TemporalContract, count: int) -> Callable[[], object]:
    session = ours.Session(contracts=[contract], max_keys=count + 1, max_trace=1000)
    arguments = [{"account": f"a{number}", "amount": 1} for number in range(count)]
    for one in arguments:
        session.reserve("check", one).commit(None)
        session.reserve("pay", one).commit(None)
    chosen = random.Random(7).choices(arguments, k=4096)
    position = 0

    def once() -> object:
        nonlocal position
        position = (position + 1) % 4096
        return session.reserve("pay", chosen[position]).commit(None)

    return once
