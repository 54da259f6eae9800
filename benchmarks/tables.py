"""What a benchmark gives: a table, and lines to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .timing import OURS, Spread

Cell: TypeAlias = str | int | float
Row: TypeAlias = tuple[Cell, ...]
TIMED = ("case", "who", "median us", "p95 us", "p99 us", "ratio")
"""Columns of most tables. The ratio is how many times what ours takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over a logarithmic scale, both ways."""

    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    The numbers of one benchmark.

    Attributes:
        name: For files.
        title: What it is about.
        notes: What has to be known to read it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: str = ""
    chart: Chart | None = field(default=None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"name": self.name, "title": self.title, "notes": self.notes, "rows": rows}

    def to_text(self) -> str:
        """For a terminal."""
        shown = [tuple(self.columns), *(tuple(map(shown_cell, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if number < 2 else text.rjust(width)
                for number, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in shown
        ]
        return "\n".join([self.title, *lines, *([self.notes] if self.notes else [])])

    def to_markdown(self) -> str:
        """For a page."""
        head = f"| {' | '.join(self.columns)} |"
        rule = f"| {' | '.join('---' if n < 2 else '---:' for n in range(len(self.columns)))} |"
        body = [f"| {' | '.join(map(shown_cell, row))} |" for row in self.rows]
        return "\n".join([head, rule, *body])


def timed_rows(case: str, spreads: Mapping[str, Spread], *, against: str = OURS) -> list[Row]:
    """One row for each contender, with its ratio to `against`."""
    base = spreads[against].median
    return [
        (case, name, found.median / 1e3, found.p95 / 1e3, found.p99 / 1e3, found.median / base)
        for name, found in spreads.items()
    ]


def shown_cell(cell: Cell) -> str:
    """A number with three digits or so; text as it is."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.1f}" if abs(cell) >= 100 else f"{cell:.2f}"
