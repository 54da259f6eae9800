"""Guards that look at values: amounts, different values, and the session's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..contracts.rules import Guard
from ..match.amounts import add, show, subtract
from ..match.paths import FieldError, FieldPath
from .call import Call
from .cells import LiveCell
from .clock import Timeline
from .guards import Breach, CellGuard, LiveGuard, wait_for
from .state import StateStore

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract

_SCALARS = (str, int, float, bool, type(None))
# What an entry is that is not there. It equals no value that a rule can ask for.
_NOTHING = object()


class Spend(CellGuard):
    """The call's amount fits under the limit. One that is measured later fits while anything is left."""

    __slots__ = ("_whole",)

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell) -> None:
        super().__init__(contract, guard, cell)
        # By far the most frequent: whole numbers, a whole session, one total.
        self._whole: Any = guard.n if type(guard.n) is int else None

    def passes(self, call: Call) -> bool:
        cell, whole = self._fixed, self._whole
        if cell is not None and whole is not None and cell.unread is None and not call.deferred:
            amount, total = call.args.get(cell.name), cell.total
            if type(amount) is int and type(total) is int and 0 <= amount <= whole - total:
                return True
        return super().passes(call)

    def holds(self, cell: Any, call: Call) -> bool:
        if cell.unread is not None:
            return False
        spent = cell.spent()
        if call.deferred and cell.is_deferred(call):
            return bool(spent < self.guard.n)
        amount = cell.amount(call)
        if isinstance(amount, ValueError) or cell.full():
            return False
        return bool(add(spent, amount) <= self.guard.n)

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        left = subtract(self.guard.n, cell.spent())
        breach.remaining = f"{show(max(left, 0))} left of {show(self.guard.n)}"
        amount = 0 if cell.is_deferred(call) else cell.amount(call)
        if cell.unread is not None:
            breach.blame = cell.unread
            breach.fault = f"{self.guard.cell.field if self.guard.cell else 'the amount'} was not measured"
        elif isinstance(amount, ValueError):
            breach.fault = str(amount)
        elif cell.full():
            breach.fault = "the window holds as many calls as it can"
        else:
            wait_for(breach, cell, cell.free_at(amount, self.guard.n))

    def overshoots(self, call: Call) -> bool:
        """Whether an amount that was known only after the call broke the limit."""
        cell = self.cell.at(call)
        if cell is None or not (cell.is_deferred(call) or call.final is not None):
            return False
        return cell.unread is not None or bool(cell.spent() > self.guard.n)


class Differ(CellGuard):
    """No new value beyond the n-th."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        known = cell.known()
        if cell.is_deferred(call):
            return len(known) < self.guard.n
        values = cell.values(call)
        if isinstance(values, ValueError) or cell.full():
            return False
        return len(known) + sum(value not in known for value in values) <= self.guard.n

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        breach.remaining = f"{max(0, int(self.guard.n) - len(cell.known()))} left of {self.guard.n}"
        values = [] if cell.is_deferred(call) else cell.values(call)
        if isinstance(values, ValueError):
            breach.fault = str(values)
        elif cell.full():
            breach.fault = "the window holds as many calls as it can"


class InState(LiveGuard):
    """A state entry has a value."""

    __slots__ = ("_path", "_state", "timeline")

    def __init__(
        self,
        contract: TemporalContract | SessionRule,
        guard: Guard,
        state: StateStore,
        timeline: Timeline,
    ) -> None:
        super().__init__(contract, guard)
        self._state = state
        self._path = None if guard.key is None else FieldPath(guard.key)
        self.timeline = None if guard.within is None else timeline

    def passes(self, call: Call) -> bool:
        found = self._state.raw(self.guard.entry)
        if self._path is not None:
            key = call.key(self._path)
            found = found.get(key) if isinstance(key, str) and isinstance(found, dict) else _NOTHING
        return self._is_recent() and same_scalar(found, self.guard.value)

    def explain(self, call: Call) -> Breach:
        breach = super().explain(call)
        key = None if self._path is None else call.key(self._path)
        if isinstance(key, FieldError):
            breach.needs, breach.fault = None, str(key)
        elif self.timeline is not None:
            breach.fault = self.timeline.fault
        return breach

    def clocked(self) -> Any:
        return self

    def _is_recent(self) -> bool:
        if self.timeline is None or self.guard.within is None:
            return True
        written = self._state.written_at(self.guard.entry)
        if self.timeline.fault is not None or written is None:
            return False
        return self.timeline.now - written <= self.guard.within


def same_scalar(found: Any, wanted: Any) -> bool:
    """
    Whether a state entry is the wanted value. A number is no boolean: 1 is not True.

    Only plain values are compared, so no object's own idea of equality runs here.
    """
    if type(found) not in _SCALARS or isinstance(found, bool) is not isinstance(wanted, bool):
        return False
    return bool(found == wanted)
