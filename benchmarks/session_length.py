"""The same call, after more and more others in the session."""

from __future__ import annotations

from . import peers
from .tables import TIMED, Chart, Row, Table, timed_rows
from .timing import OURS, interleaved

LENGTHS = (100, 1000, 10_000, 100_000)
CONTRACTS, ABOUT = 10, 3


def measure(quick: bool) -> Table:
    """The gate at each length, with ten contracts of which three are about the tool."""
    rows: list[Row] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for length in (10, 100) if quick else LENGTHS:
        calls = {
            OURS: peers.our_call(peers.our_session(CONTRACTS, ABOUT)),
            "acel-core": peers.acel_call(peers.acel_session(CONTRACTS, ABOUT)),
        }
        for call in calls.values():
            for _ in range(length):
                call()
        spreads = interleaved(calls, quick=quick, most=2000)
        rows += timed_rows(f"after {length:,} calls", spreads)
        for name, found in spreads.items():
            lines.setdefault(name, []).append((float(length), found.median / 1e3))
    return Table(
        name="session-length",
        title="The gate, by length of the session",
        columns=TIMED,
        rows=rows,
        chart=Chart(x="calls in the session", y="microseconds a call", lines=lines),
    )
