"""
The workers of one fleet, by their logs: what they were granted, set against what the store said.

Each log holds the answers of the store to one worker. Together they show whether the store granted more than
a limit allows, or spoke of less than it had granted. Only what is certain is used: grants that were never
taken back, whose amounts nothing changed, and times that are earlier for sure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate

from ....fleet.plan import FleetGuard, FleetMove
from ....fleet.wire import cell_id
from ..fleet.fleet_answer import AnsweredPlan
from .cell_account import CellAccount

__all__ = ("FleetAccount",)

SETTLED_AFTER = 10_000_000
"""
So many microseconds after a call ended, the store knows of it if its worker has asked again since.

A worker tells within 50 ms, or with its next question.
"""


class FleetAccount:
    """
    Set what logs of one fleet show against each other.

    Attributes:
        grants: How many leases the logs show that count for good.
    """

    def __init__(self) -> None:
        self.grants = 0
        self._cells: dict[tuple[str, str], CellAccount] = {}
        # Data of stores in which something ran that is not what was asked for: it may count in any cell.
        self._altered: set[str] = set()

    @property
    def cells(self) -> int:
        """Count the cells that the logs speak of."""
        return len(self._cells)

    @property
    def unseen(self) -> int:
        """Count the grants that rest on calls which none of the logs shows."""
        known = ((generation, cell) for (generation, _), cell in self._cells.items())
        return sum(cell.unseen() for generation, cell in known if generation not in self._altered)

    def take(self, log: str, answers: Iterable[AnsweredPlan]) -> None:
        """Take in what the store answered to the workers of one log, all of it."""
        # What is counted in that process alone, or was not judged by the store, says nothing of it.
        told = [each for each in answers if not each.form.get("local") and "now" in each.form]
        settling = _Settling(told)
        for each in told:
            where = f"{log}, line {each.number}"
            if "lease" in each.form:
                self._grant(each, where, settling.by(each))
            for place, guard in each.broken():
                self._say(each, place, guard, where)

    def contradictions(self) -> list[str]:
        """Say where the logs contradict each other or the store, one line each."""
        return [line for cell in self._cells.values() for line in cell.contradictions()]

    def _grant(self, each: AnsweredPlan, where: str, settled: int | None) -> None:
        now = each.form["now"]
        moves = {move.cell: units for move in each.plan.moves if (units := _units(each, move)) is not None}
        uses = {move.cell: move.values for move in each.plan.moves if _counts(each, move) and move.values}
        self.grants += bool(moves or uses)
        if each.altered:
            self._altered.add(each.form["generation"])
        for place, units in moves.items():
            self._cell(each, place).grants.append((now, units))
        for place, values in uses.items():
            self._cell(each, place).uses.append((now, values))
        for move in each.plan.moves:
            self._move(each, move, settled)
        for guard in each.plan.guards:
            if guard.enforced:
                self._limit(each, guard, moves.get(guard.cell, 0), uses.get(guard.cell, ()), where)

    def _move(self, each: AnsweredPlan, move: FleetMove, settled: int | None) -> None:
        cell, now = self._cell(each, move.cell), each.form["now"]
        if move.amount is not None and move.amount < 0:
            cell.gives_back = True
        if each.how in ("commit", None) and move.kind in ("count", "give"):
            cell.possible.append(now)
        if settled is not None and move.kind == "count":
            cell.successes.append((now, settled))
        if move.kind == "take" and each.how in ("commit", "lose"):
            cell.takes.append(now)

    def _limit(
        self, each: AnsweredPlan, guard: FleetGuard, units: int, values: tuple[str, ...], where: str
    ) -> None:
        cell, now = self._cell(each, guard.cell), each.form["now"]
        if guard.kind in ("cap", "spend"):
            cell.limits.append((now, units, guard.n, where))
        elif guard.kind == "distinct" and guard.values is not None:
            cell.use_limits.append((now, values, guard.n, where))
        elif guard.kind == "need":
            cell.needs.append((now, guard.n))

    def _say(self, each: AnsweredPlan, broken: Mapping[str, int], guard: FleetGuard, where: str) -> None:
        cell, now = self._cell(each, guard.cell), each.form["now"]
        is_windowed = cell.cell.within is not None
        if guard.kind in ("cap", "ban", "spend"):
            by_total = cell.cell.kind == "sum" or is_windowed
            cell.said.append((now, broken.get("total" if by_total else "live", 0), where))
        elif guard.kind == "distinct" and "known" in broken:
            cell.use_said.append((now, broken["known"], where))
        elif guard.kind == "need":
            # Of one success in a window the store keeps the time, and no number.
            number = 0 if guard.n == 1 else broken.get("total" if is_windowed else "done", 0)
            cell.success_said.append((now, number, where))

    def _cell(self, each: AnsweredPlan, place: int) -> CellAccount:
        cell = each.plan.cells[place]
        # Data that was lost is told again, at times of its own: what was said before it is not compared.
        return self._cells.setdefault((each.form["generation"], cell_id(cell)), CellAccount(cell))


class _Settling:
    """Tell by when the store certainly knew how the calls of one log had ended."""

    def __init__(self, answers: Iterable[AnsweredPlan]) -> None:
        trips: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for each in answers:
            if "lease" in each.form:
                trips.setdefault(_worker(each), []).append((each.number, each.form["now"]))
        self._numbers: dict[tuple[str, str], list[int]] = {}
        self._times: dict[tuple[str, str], list[int]] = {}
        for worker, made in trips.items():
            made.sort()
            self._numbers[worker] = [number for number, _ in made]
            self._times[worker] = list(accumulate((now for _, now in made), max))

    def by(self, each: AnsweredPlan) -> int | None:
        """Give the time; None if the call did not succeed as it was asked for, or if nobody can tell."""
        if each.how != "commit" or each.altered or "lease" not in each.form:
            return None
        worker = _worker(each)
        times = self._times[worker]
        after = bisect_right(self._numbers[worker], each.ended)
        if after == len(times):
            return None
        told = bisect_left(times, times[after] + SETTLED_AFTER)
        return times[told] if told < len(times) else None


def _worker(each: AnsweredPlan) -> tuple[str, str]:
    return each.form["generation"], each.form["lease"].rpartition(".")[0]


def _counts(each: AnsweredPlan, move: FleetMove) -> bool:
    """Tell whether a grant certainly counts for good as it was asked for."""
    lasting = each.how in ("commit", "lose") or (each.how == "fail" and not move.refund)
    return lasting and move.kind == "count" and not move.deferred and not each.altered


def _units(each: AnsweredPlan, move: FleetMove) -> int | None:
    """Tell how much a grant certainly counts for good; None if that is not certain."""
    cell = each.plan.cells[move.cell]
    if not _counts(each, move):
        return None
    if cell.kind in ("tally", "stamps"):
        return 1
    amount = move.amount if cell.kind == "sum" else None
    return amount if amount is not None and amount >= 0 else None
