"""
One cell while a step looks at it.

A window is kept in buckets of a hundredth of its length, with a running total, so a step touches one bucket
and those that ended. A bucket has an edge: the time of its youngest member for what limits, and of its oldest
for what allows. It is out when that is over, so a bucket limits too long rather than too short, and allows
too short rather than too long.

A cell's time never goes back: a store's clock that was set back makes it stand still.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from ..amounts import LARGEST
from ..wire import WireCell

ALLOWS = ("marks", "tokens")
"""Kinds whose members let calls through."""


class Rows(Protocol):
    """Buckets of a window with their amounts, or values with their uses; each has an edge."""

    def get(self, at: str) -> tuple[int, int] | None: ...
    def set(self, at: str, edge: int, value: int) -> None: ...
    def drop(self, at: str) -> None: ...
    def clear(self) -> None: ...
    def size(self) -> int: ...
    def older(self, than: int) -> list[tuple[str, int]]: ...
    def all(self) -> list[tuple[int, int]]: ...
    def first(self) -> tuple[str, int]: ...
    def bound(self, latest: int) -> None: ...


@dataclass(slots=True)
class Saved:
    """Keep the numbers of a cell, beside its rows."""

    live: int = 0
    done: int = 0
    total: int = 0
    unread: int | None = None
    unread_by: str = ""
    now: int = 0
    period: int | None = None
    given: int = 0
    last: int | None = None

    def mend(self, now: int) -> None:
        """Let no time be later than `now`, and nothing be missing. What was counted stays."""
        self.now = min(self.now, now)
        self.unread = None
        if self.last is not None:
            self.last = min(self.last, now)
        if self.period is not None and self.period > now:
            # The next step takes the period that is then, with what was counted in it.
            self.period = None


Ticket = tuple[str, int | None, int, int | None]
"""What `undo` needs: bucket or time, period, count of prerequisites given, edge of the bucket."""

NO_TICKET = ""
DEFERRED = "D"
PLAIN = "-"


class CellState:
    """
    A cell, its time and its rows, in one transaction.

    Attributes:
        spec: What the plan says about it.
        saved: Its numbers.
        rows: Its rows.
        now: Its time.
        end: When its period ends.
        bad: Whether the plan does not know the period that is now.
        moved: Whether it has to be written back.
    """

    __slots__ = ("bad", "end", "moved", "now", "rows", "saved", "spec")

    def __init__(self, spec: WireCell, saved: Saved, rows: Rows, now: int) -> None:
        self.spec = spec
        self.saved = saved
        self.rows = rows
        self.now = max(now, saved.now)
        self.end: int | None = None
        self.bad = self.moved = False
        if spec.p is not None:
            self._turn(spec.p)
        if spec.w is not None:
            self._expire(self.now - spec.w)

    def ticket(self, at: str, *, edge: int | None = None) -> Ticket:
        """Write down what was done, for `undo`."""
        return (at, self.saved.period, self.saved.given, edge)

    def count(self) -> int:
        """Count the calls that limit: those in the window, or all that started."""
        return self.saved.live if self.spec.w is None else self.saved.total

    def put(self, amount: int) -> str:
        """Add an amount now; returns where. One that cannot be added exactly is missing from now on."""
        if abs(self.saved.total + amount) > LARGEST:
            self.miss("")
            return NO_TICKET
        self.saved.total += amount
        self.moved = True
        if self.spec.b is None:
            return PLAIN
        at = str(self.now // self.spec.b)
        edge, old = self.rows.get(at) or (self.now, 0)
        self.rows.set(at, edge if self.spec.k in ALLOWS else self.now, old + amount)
        return at

    def take(self, at: str, amount: int) -> None:
        """Take an amount back from where it was put, if that is still there."""
        if at != PLAIN:
            row = self.rows.get(at)
            if row is None:
                return
            if row[1] == amount:
                self.rows.drop(at)
            else:
                self.rows.set(at, row[0], row[1] - amount)
        self.saved.total -= amount
        self.moved = True

    def use(self, values: tuple[str, ...]) -> None:
        """Count a use of each value."""
        for value in values:
            row = self.rows.get(value)
            self.rows.set(value, self.now, 1 + (row[1] if row else 0))
        self.moved = True

    def unuse(self, values: tuple[str, ...]) -> None:
        """Take back a use of each value."""
        for value in values:
            row = self.rows.get(value)
            if row is not None and row[1] > 1:
                self.rows.set(value, row[0], row[1] - 1)
            elif row is not None:
                self.rows.drop(value)
        self.moved = True

    def miss(self, lease: str) -> None:
        """Note that something is missing here that nobody can add."""
        self.saved.unread, self.saved.unread_by = self.now, lease
        self.moved = True

    def empty(self) -> None:
        """Forget what was counted."""
        self.rows.clear()
        self.saved.total = 0

    def _turn(self, edges: tuple[int, ...]) -> None:
        span = next(((a, b) for a, b in pairwise(edges) if a <= self.now < b), None)
        if span is None:
            self.bad = True
            return
        self.end = span[1]
        if self.saved.period != span[0]:
            if self.saved.period is not None:
                self.rows.clear()
                self.saved = Saved(now=self.saved.now)
            self.saved.period = span[0]
            self.moved = True

    def _expire(self, before: int) -> None:
        for at, value in self.rows.older(before):
            if self.spec.k != "distinct":
                self.saved.total -= value
            self.rows.drop(at)
            self.moved = True
        if self.saved.unread is not None and self.saved.unread < before:
            self.saved.unread = None
            self.moved = True
