"""One cell of a fleet's store, by the logs of its workers: what certainly counts in it, and what was said."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from ...._plain.amounts import show
from ....fleet.amounts import from_units
from ....fleet.periods import edges_around
from ....fleet.plan import FleetCell


@dataclass(slots=True)
class CellAccount:
    """
    Keep what was granted of one cell, and what was said about it. Times are the store's, in microseconds.

    Attributes:
        cell: The cell.
        grants: When something was granted that counts for good, and how much.
        limits: Each grant under a limit: when, how much, the limit, and where that stands.
        said: What the store said was used: when, how much, and where that stands.
        uses: When values were granted that count for good, and which.
        use_limits: Each grant under a limit of values: when, which, how many there may be, and where.
        use_said: How many values the store said were in use: when, how many, and where.
        successes: When calls were granted that succeeded, and when the store certainly knew of it.
        success_said: How many successes the store said there were: when, how many, and where.
        possible: When calls were granted that may have succeeded, or given something.
        needs: When calls were granted that need so many of these.
        takes: When calls were granted that have used one of these up.
        gives_back: Whether an amount was below zero, so that what was granted is not what is used.
    """

    cell: FleetCell
    grants: list[tuple[int, int]] = field(default_factory=list)
    limits: list[tuple[int, int, int, str]] = field(default_factory=list)
    said: list[tuple[int, int, str]] = field(default_factory=list)
    uses: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    use_limits: list[tuple[int, tuple[str, ...], int, str]] = field(default_factory=list)
    use_said: list[tuple[int, int, str]] = field(default_factory=list)
    successes: list[tuple[int, int]] = field(default_factory=list)
    success_said: list[tuple[int, int, str]] = field(default_factory=list)
    possible: list[int] = field(default_factory=list)
    needs: list[tuple[int, int]] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    gives_back: bool = False

    def contradictions(self) -> Iterator[str]:
        """Say where the logs contradict the store, one line each."""
        if not self.gives_back:
            yield from self._of_amounts()
        yield from self._of_values()
        yield from self._of_successes()

    def unseen(self) -> int:
        """Count the grants that rest on calls which none of the logs shows."""
        possible, takes = sorted(self.possible), sorted(self.takes)
        needing = sum(bisect_left(possible, now) < n for now, n in self.needs)
        return needing + sum(bisect_left(possible, now) <= number for number, now in enumerate(takes))

    def _of_amounts(self) -> Iterator[str]:
        grants = sorted(self.grants)
        granted = list(accumulate((units for _, units in grants), initial=0))

        def before(now: int) -> int:
            first, last = (bisect_left(grants, (moment, 0)) for moment in (self._begin(now), now))
            return granted[last] - granted[first]

        for now, units, limit, where in self.limits:
            if (used := before(now) + units) > limit:
                yield _beyond(where, self._shown(used), self._shown(limit))
        for now, number, where in self.said:
            if (used := before(now)) > number:
                yield _forgotten(where, self._shown(number), self._shown(used))

    def _of_values(self) -> Iterator[str]:
        in_use = _Uses(sorted(self.uses), self._begin)
        for now, values, limit, where in sorted(self.use_limits):
            if (used := len(in_use.before(now) | set(values))) > limit:
                yield _beyond(where, f"{used} value(s)", str(limit))
        in_use = _Uses(sorted(self.uses), self._begin)
        for now, number, where in sorted(self.use_said):
            if (used := len(in_use.before(now))) > number:
                yield _forgotten(where, f"{number} value(s)", str(used))

    def _of_successes(self) -> Iterator[str]:
        coming = deque(sorted((settled, granted) for granted, settled in self.successes))
        granted: list[int] = []
        for now, number, where in sorted(self.success_said):
            while coming and coming[0][0] <= now:
                insort(granted, coming.popleft()[1])
            begin = self._begin(now)
            if self.cell.within is not None:
                # The store puts what is about as old together, and lets it go together.
                begin += 2 * -(-self.cell.within // 100)
            if (known := len(granted) - bisect_left(granted, begin)) > number:
                yield _forgotten(where, f"{number} success(es)", str(known))

    def _begin(self, now: int) -> int:
        """Give the beginning of the window or the period that a moment is in."""
        cell = self.cell
        if cell.within is not None:
            return now - cell.within + 1
        if cell.per is not None:
            edges = edges_around(cell.per, cell.tz, now)
            return next((start for start, end in pairwise(edges) if start <= now < end), now)
        return 0

    def _shown(self, units: int) -> str:
        return show(from_units(units, self.cell.scale)) if self.cell.kind == "sum" else str(units)


class _Uses:
    """Know which values are in use, at moments that are asked about in their order."""

    def __init__(self, uses: Iterable[tuple[int, tuple[str, ...]]], begin: Callable[[int], int]) -> None:
        self._coming = deque(uses)
        self._begin = begin
        self._kept: deque[tuple[int, tuple[str, ...]]] = deque()
        self._counts: Counter[str] = Counter()

    def before(self, now: int) -> set[str]:
        """Give the values that were granted before a moment, in its window or period."""
        while self._coming and self._coming[0][0] < now:
            self._kept.append(self._coming.popleft())
            self._counts.update(self._kept[-1][1])
        begin = self._begin(now)
        while self._kept and self._kept[0][0] < begin:
            self._counts.subtract(self._kept.popleft()[1])
        return {value for value, count in self._counts.items() if count > 0}


def _beyond(where: str, used: str, limit: str) -> str:
    return f"{where}: the fleet's store granted {used} of {limit}, by these logs together"


def _forgotten(where: str, number: str, known: str) -> str:
    return f"{where}: the fleet's store counted {number}, and these logs show {known} granted before"
