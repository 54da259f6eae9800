"""
The workers of one fleet, by their logs: what they were granted, set against what the store said.

Each log holds the answers of the store to one worker. Together they show whether the store granted more than
a limit allows, or spoke of less than it had granted. Only what is certain is used: grants that were never
taken back, whose amounts nothing changed, and times that are earlier for sure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from .._plain.amounts import show
from ..fleet.amounts import from_units
from ..fleet.periods import edges_around
from ..fleet.plan import FleetCell, FleetGuard, FleetMove
from ..fleet.wire import cell_id
from .engine.fleet_answer import AnsweredPlan


@dataclass(slots=True)
class _Cell:
    """Keep what was granted of one cell, and what was said about it."""

    cell: FleetCell
    grants: list[tuple[int, int]] = field(default_factory=list)
    limits: list[tuple[int, int, int, str]] = field(default_factory=list)
    said: list[tuple[int, int, str]] = field(default_factory=list)
    # An amount below zero gives something back, so that what was granted is not what is used.
    gives_back: bool = False
    # What was granted before each grant, all together: made once the grants are in order.
    granted: list[int] = field(default_factory=list)


class FleetAccount:
    """
    Set what logs of one fleet show against each other.

    Attributes:
        grants: How many leases the logs show that count for good.
    """

    def __init__(self) -> None:
        self.grants = 0
        self._cells: dict[tuple[str, str], _Cell] = {}

    @property
    def cells(self) -> int:
        """Count the cells that the logs speak of."""
        return len(self._cells)

    def take(self, log: str, answers: Iterable[AnsweredPlan]) -> None:
        """Take in what the store answered to one worker."""
        for each in answers:
            if each.form.get("local") or "now" not in each.form:
                # Counted in that process alone, or not judged by the store.
                continue
            where = f"{log}, line {each.number}"
            if "lease" in each.form:
                self._grant(each, where)
            for place, guard in each.broken():
                self._say(each, place, guard, where)

    def contradictions(self) -> list[str]:
        """Say where the logs contradict each other or the store, one line each."""
        found: list[str] = []
        for known in self._cells.values():
            if known.gives_back:
                continue
            known.grants.sort()
            known.granted = list(accumulate((units for _, units in known.grants), initial=0))
            found += [*_beyond(known), *_forgotten(known)]
        return found

    def _grant(self, each: AnsweredPlan, where: str) -> None:
        moves = {move.cell: units for move in each.plan.moves if (units := _units(each, move)) is not None}
        for move in each.plan.moves:
            if move.amount is not None and move.amount < 0:
                self._cell(each, move.cell).gives_back = True
        self.grants += bool(moves)
        now = each.form["now"]
        for place, units in moves.items():
            self._cell(each, place).grants.append((now, units))
        for guard in each.plan.guards:
            if guard.enforced and guard.kind in ("cap", "spend"):
                units = moves.get(guard.cell, 0)
                self._cell(each, guard.cell).limits.append((now, units, guard.n, where))

    def _say(self, each: AnsweredPlan, broken: Mapping[str, int], guard: FleetGuard, where: str) -> None:
        cell = each.plan.cells[guard.cell]
        if guard.kind in ("cap", "ban", "spend"):
            by_total = cell.kind == "sum" or cell.within is not None
            number = broken.get("total" if by_total else "live", 0)
            self._cell(each, guard.cell).said.append((each.form["now"], number, where))

    def _cell(self, each: AnsweredPlan, place: int) -> _Cell:
        cell = each.plan.cells[place]
        # Data that was lost is told again, at times of its own: what was said before it is not compared.
        return self._cells.setdefault((each.form["generation"], cell_id(cell)), _Cell(cell))


def _units(each: AnsweredPlan, move: FleetMove) -> int | None:
    """Tell how much a grant certainly counts for good; None if that is not certain."""
    cell = each.plan.cells[move.cell]
    lasting = each.how in ("commit", "lose") or (each.how == "fail" and not move.refund)
    if not lasting or move.kind != "count" or move.deferred or each.altered:
        return None
    if cell.kind in ("tally", "stamps"):
        return 1
    amount = move.amount if cell.kind == "sum" else None
    return amount if amount is not None and amount >= 0 else None


def _before(known: _Cell, now: int) -> int:
    """Add up what was granted before a moment, in its window or period."""
    begin, cell = 0, known.cell
    if cell.within is not None:
        begin = now - cell.within + 1
    elif cell.per is not None:
        edges = edges_around(cell.per, cell.tz, now)
        begin = next((start for start, end in pairwise(edges) if start <= now < end), now)
    first, last = bisect_left(known.grants, (begin, 0)), bisect_left(known.grants, (now, 0))
    return known.granted[last] - known.granted[first]


def _beyond(known: _Cell) -> Iterable[str]:
    for now, units, limit, where in known.limits:
        used = _before(known, now) + units
        if used > limit:
            said = f"granted {_shown(known, used)} of {_shown(known, limit)}"
            yield f"{where}: the fleet's store {said}, by these logs together"


def _forgotten(known: _Cell) -> Iterable[str]:
    for now, number, where in known.said:
        used = _before(known, now)
        if used > number:
            said = f"counted {_shown(known, number)}, and these logs show {_shown(known, used)}"
            yield f"{where}: the fleet's store {said} granted before"


def _shown(known: _Cell, units: int) -> str:
    return show(from_units(units, known.cell.scale)) if known.cell.kind == "sum" else str(units)
