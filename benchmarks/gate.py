"""One call through the gate, reserved and committed, under more and more contracts."""

from __future__ import annotations

from . import peers
from .tables import TIMED, Chart, Row, Table, timed_rows
from .timing import interleaved

SIZES = (1, 10, 50, 200, 1000, 10_000)
ABOUT = {"one about the tool": 1, "three about the tool": 3, "all about the tool": None}


def measure(quick: bool) -> Table:
    """The gate for every size, and every share of the contracts that concerns the called tool."""
    rows: list[Row] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for size in (1, 10) if quick else SIZES:
        for words, about in ABOUT.items():
            concerned = size if about is None else about
            if concerned > size or (size == 1 and about is None):
                continue
            spreads = interleaved(peers.contenders(size, concerned), quick=quick)
            rows += timed_rows(f"{size:,}, {words}", spreads)
            if about == 1:
                for name, found in spreads.items():
                    lines.setdefault(name, []).append((float(size), found.median / 1e3))
    return Table(
        name="gate",
        title="The gate, by number of contracts",
        columns=TIMED,
        rows=rows,
        notes=(
            "acel-core: precheck and postcheck. Cedar and Rego judge one request and keep no session; what it"
            " would cost to keep it for them is not counted. regopy is left out above"
            f" {peers.MOST_REGO_RULES:,} rules: it builds 10,000 in two minutes."
        ),
        chart=Chart(x="contracts, one of them about the tool", y="microseconds a call", lines=lines),
    )
