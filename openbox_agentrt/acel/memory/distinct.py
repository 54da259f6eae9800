"""Which values an argument had, and the guard that limits how many there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ..._plain.spelling import Fold
from ..contracts.rules import MAX_IN_WINDOW
from ..match.paths import FieldError, FieldPath
from ..match.spelling import key_text
from .call import JudgedCall
from .cell import LiveCell
from .clock import MonotoneClock
from .guard import Breach, CellGuard
from .window import put_in_time

# The ticket of a call whose values are to be measured.
DEFERRED = "deferred"


class Distinct(LiveCell):
    """Remember the values that an argument had. Each element of a list is a value."""

    __slots__ = ("_entries", "_field", "_how", "_refund", "counts", "timeline", "within")

    settles_by_ticket = True

    def __init__(
        self,
        field: str,
        *,
        fold: Fold | None = None,
        refund: bool = False,
        timeline: MonotoneClock | None = None,
        within: float | None = None,
    ) -> None:
        self._field = FieldPath(field)
        self._how = ("values", field, fold)
        self._refund = refund
        self.timeline = timeline
        self.within = within
        self._entries: deque[tuple[float, str]] = deque()
        self.counts: dict[str, int] = {}

    def is_deferred(self, call: JudgedCall) -> bool:
        """Tell whether the call's values are to be measured."""
        return bool(call.deferred) and self._field.text in call.deferred

    def values(self, call: JudgedCall) -> list[str] | FieldError:
        """Read the call's values, or say why they cannot be read."""
        memo = call.memo
        if memo is None:
            memo = call.memo = {}
        if self._how not in memo:
            memo[self._how] = self.read(call.args)
        values: list[str] | FieldError = memo[self._how]
        return values

    def known(self) -> dict[str, int]:
        """Count how often each value of the window was used."""
        if self.timeline is not None and self.within is not None:
            while self._entries and self.timeline.now - self._entries[0][0] > self.within:
                self._drop(self._entries.popleft()[1])
        return self.counts

    def full(self) -> bool:
        """Tell whether the window keeps as many uses as it can."""
        return len(self._entries) >= MAX_IN_WINDOW

    def reserve(self, call: JudgedCall) -> Any:
        if self.is_deferred(call):
            return DEFERRED
        values = self.values(call)
        found = () if isinstance(values, FieldError) else values
        # Without a value, the time stands for the uses: should others run, they count from then.
        return [entry for value in found if (entry := self._put(value))] or self.now()

    def commit(self, ticket: Any, call: JudgedCall) -> None:
        if ticket is DEFERRED:
            self._count(None if call.measured is None else self.read(call.measured))
        elif call.final is not None:
            self._correct(ticket, call.final)

    def fail(self, ticket: Any, call: JudgedCall) -> None:
        if self._refund:
            self.undo(ticket, call)
        else:
            self.commit(ticket, call)

    def lose(self, ticket: Any, call: JudgedCall) -> None:
        self.commit(ticket, call)

    def undo(self, ticket: Any, call: JudgedCall) -> None:
        if ticket is not DEFERRED:
            self._take(ticket)

    def idle(self) -> bool:
        return not self.known()

    def dump(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "entries": [list(entry) for entry in self._entries]}

    def load(self, data: dict[str, Any]) -> None:
        self.counts = {}
        for value, count in data["counts"].items():
            key = self._spelt(value)
            self.counts[key] = self.counts.get(key, 0) + int(count)
        self._entries = deque((float(at), self._spelt(value)) for at, value in data["entries"])

    def read(self, args: Any) -> list[str] | FieldError:
        """Read the values out of arguments, or say why they cannot be read."""
        try:
            value = self._field.read(args)
            values = value if self._field.many else [value]
            # Each element of a list is a value.
            items = [
                item for one in values for item in (one if isinstance(one, (list, tuple, set)) else [one])
            ]
            return list(dict.fromkeys(key_text(item, self._field.text, fold=self._how[2]) for item in items))
        except FieldError as error:
            return error.kept()

    def _spelt(self, value: str) -> str:
        return key_text(value, self._field.text, fold=self._how[2])

    def _correct(self, ticket: Any, final: dict[str, Any]) -> None:
        values = self.read(final)
        if not isinstance(values, FieldError):
            # What ran is what was used. If it cannot be told, what was judged still counts.
            self._take(ticket)
            self._count(values, at=ticket if isinstance(ticket, float) else ticket[0][0])

    def _take(self, ticket: Iterable[tuple[float, str]] | float) -> None:
        for entry in () if isinstance(ticket, float) else ticket:
            if self.timeline is None:
                self._drop(entry[1])
            elif entry in self._entries:
                self._entries.remove(entry)
                self._drop(entry[1])

    def _count(self, values: list[str] | FieldError | None, at: float | None = None) -> None:
        for value in () if values is None or isinstance(values, FieldError) else values:
            self._put(value, at)

    def _put(self, value: str, at: float | None = None) -> tuple[float, str] | None:
        # Only shadow mode gets to a bound; enforced, the guard has refused.
        if value not in self.counts and len(self.counts) >= MAX_IN_WINDOW:
            return None
        if self.timeline is not None and self.full():
            self._drop(self._entries.popleft()[1])
        self.counts[value] = self.counts.get(value, 0) + 1
        if self.timeline is None:
            return 0.0, value
        entry = (self.timeline.now if at is None else at, value)
        put_in_time(self._entries, entry)
        return entry

    def _drop(self, value: str) -> None:
        self.counts[value] -= 1
        if not self.counts[value]:
            del self.counts[value]


class Differ(CellGuard):
    """Require that the call brings no new value beyond the n-th."""

    __slots__ = ()

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        known = cell.known()
        if cell.is_deferred(call):
            return len(known) < self.guard.n
        values = cell.values(call)
        if isinstance(values, ValueError) or cell.full():
            return False
        return len(known) + sum(value not in known for value in values) <= self.guard.n

    def fits_alone(self, cell: Any, call: JudgedCall) -> bool:
        values = None if cell.is_deferred(call) else cell.values(call)
        return (1 if values is None or isinstance(values, ValueError) else len(values)) <= self.guard.n

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        breach.remaining = f"{max(0, int(self.guard.n) - len(cell.known()))} left of {self.guard.n}"
        values = [] if cell.is_deferred(call) else cell.values(call)
        if isinstance(values, ValueError):
            breach.fault = str(values)
        elif cell.full():
            breach.fault = "the window holds as many calls as it can"

    def overshoots(self, call: JudgedCall) -> bool:
        """Tell whether a value that was known only after the call broke the limit."""
        cell = self.cell.at(call)
        if cell is None or not (cell.is_deferred(call) or call.final is not None):
            return False
        return len(cell.known()) > self.guard.n
