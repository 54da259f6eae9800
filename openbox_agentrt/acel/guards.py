"""
The comparisons that decide, and what to say when one does not hold.

`passes` is asked for every call and says yes or no. `explain` is asked only for a call that some
guard stopped, and finds out what would have to change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .amounts import add, show, subtract
from .calls import Call
from .cells import LiveCell
from .keyed import Keyed
from .rules import Guard
from .state import StateStore

if TYPE_CHECKING:
    from .contract import SessionRule, TemporalContract

_SCALARS = (str, int, float, bool, type(None))


@dataclass(slots=True, kw_only=True)
class Breach:
    """
    A contract that a call would break, or that time has broken.

    Attributes:
        contract: The contract.
        needs: What would make the call possible.
        blame: Step of the earlier call to blame.
        retry_after: Seconds until the same call would be possible.
        remaining: What is left of a budget.
        fault: What could not be evaluated.
        stops: Whether the call itself is at fault. A late answer is reported and not refused.
    """

    contract: TemporalContract | SessionRule
    needs: str | None = None
    blame: int | None = None
    retry_after: float | None = None
    remaining: str | None = None
    fault: str | None = None
    stops: bool = True

    def blocks(self) -> bool:
        """Whether it is a reason to refuse the call."""
        return self.stops and self.contract.mode == "enforce"

    def halts(self) -> bool:
        """Whether it is a reason to admit nothing more."""
        return self.blocks() and self.contract.on_violation == "halt"


class LiveGuard:
    """A guard, bound to the memory that it looks at."""

    __slots__ = ("_fixed", "cell", "contract", "guard")

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell | None) -> None:
        self.contract = contract
        self.guard = guard
        # Which class of cell it is follows from the guard's kind, see `bind` in `store`.
        self.cell: Any = cell
        # Most cells are about every call, and nobody has to ask them.
        self._fixed = None if isinstance(cell, Keyed) or cell is None or cell.timeline is not None else cell

    def holds(self, cell: Any, call: Call) -> bool:
        """Whether it holds; `cell` is the memory that is about the call."""
        raise NotImplementedError

    def passes(self, call: Call) -> bool:
        """Whether it holds for the call. If that cannot be told, it does not."""
        cell = self._fixed or self.cell.at(call)
        return cell is not None and self.holds(cell, call)

    def explain(self, call: Call) -> Breach:
        """Why it does not hold."""
        breach = Breach(contract=self.contract, needs=self.guard.needs)
        cell = self.cell.at(call)
        if cell is None:
            breach.needs = None
            breach.fault = self._unknown(call)
        else:
            self.detail(breach, cell, call)
        return breach

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        """Say what is known about why."""

    def at_end(self, call: Call) -> Breach | None:
        """Why it does not hold when the session ends: for the first value it fails for, if it has a key."""
        cells = [cell for _, cell in self.cell.cells()] if isinstance(self.cell, Keyed) else [self.cell]
        for cell in cells:
            if cell.at(call) is None or not self.holds(cell, call):
                breach = Breach(contract=self.contract, needs=self.guard.needs, stops=False)
                self.detail(breach, cell, call)
                return breach
        return None

    def _unknown(self, call: Call) -> str:
        if isinstance(self.cell, Keyed):
            key = call.key(self.cell.path)
            if not isinstance(key, str):
                return str(key)
        timeline = self.cell.timeline
        return (timeline.fault if timeline is not None else None) or "the time is not known"


class Need(LiveGuard):
    """So many calls have succeeded."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return bool(cell.succeeded() >= self.guard.n)


class Ban(LiveGuard):
    """No call was let through."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return not cell.started()

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        breach.blame = cell.blame()
        _wait(breach, cell, cell.free_at(1))


class Cap(LiveGuard):
    """Fewer than n calls were let through."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return bool(cell.started() < self.guard.n)

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        n = int(self.guard.n)
        breach.remaining = f"0 left of {n}"
        if n:
            breach.blame = cell.blame()
            _wait(breach, cell, cell.free_at(n))


class Spend(LiveGuard):
    """The call's amount fits under the limit. One that is measured later fits while anything is left."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        if cell.unread is not None:
            return False
        spent = cell.spent()
        if call.deferred and cell.is_deferred(call):
            return bool(spent < self.guard.n)
        amount = cell.amount(call)
        if type(amount) is type(spent) is int and cell.timeline is None:
            return spent + amount <= self.guard.n
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
            _wait(breach, cell, cell.free_at(amount, self.guard.n))

    def overshoots(self, call: Call) -> bool:
        """Whether an amount that was known only after the call broke the limit."""
        cell = self.cell.at(call)
        if cell is None or not (cell.is_deferred(call) or call.final is not None):
            return False
        return cell.unread is not None or bool(cell.spent() > self.guard.n)


class Differ(LiveGuard):
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


class Token(LiveGuard):
    """An unused prerequisite is there."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return bool(cell.left())


class Next(LiveGuard):
    """The call before was the one, it succeeded, and nothing is under way since."""

    __slots__ = ("latest",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell | None, latest: LiveCell
    ) -> None:
        super().__init__(contract, guard, cell)
        self.latest: Any = latest

    def holds(self, cell: Any, call: Call) -> bool:
        latest = self.latest.at(call)
        if latest is None or not cell.step or cell.step != latest.top or not cell.fresh():
            return False
        return all(step < latest.top for step in latest.flying)

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        latest = self.latest.at(call)
        breach.blame = max(latest.flying | {latest.top}) or None


class InState(LiveGuard):
    """A state entry has a value."""

    __slots__ = ("_state",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell | None, state: StateStore
    ) -> None:
        super().__init__(contract, guard, cell)
        self._state = state

    def holds(self, cell: Any, call: Call) -> bool:
        entry: str = cell.field
        found = self._state.raw(entry)
        if cell.path is not None:
            key = call.key(cell.path)
            if not isinstance(key, str):
                return False
            found = found.get(key) if isinstance(found, dict) else None
        if cell.timeline is not None:
            written = self._state.written_at(entry)
            if written is None or cell.timeline.now - written > cell.within:
                return False
        return same_scalar(found, self.guard.value)

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        if cell.path is not None:
            key = call.key(cell.path)
            if not isinstance(key, str):
                breach.fault = str(key)


class Settled(LiveGuard):
    """Nothing is owed. Asked when the session ends."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return not cell.owed()

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        breach.blame = min(cell.owed(), default=None)


class Overdue(LiveGuard):
    """Nothing is owed for too long. What is, is reported once, and no call is refused for it."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return not cell.overdue()

    def passes(self, call: Call) -> bool:
        # A call whose key or time cannot be told is not late.
        cell = self.cell.at(call)
        return cell is None or self.holds(cell, call)

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        breach.stops = False
        late = cell.overdue()
        breach.blame = late[0]
        for step in late:
            cell.cancel(step)


class Room(LiveGuard):
    """There is memory for what the call would change."""

    __slots__ = ("_strict",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell | None, *, strict: bool
    ) -> None:
        super().__init__(contract, guard, cell)
        self._strict = strict

    def holds(self, cell: Any, call: Call) -> bool:
        return not cell.full()

    def passes(self, call: Call) -> bool:
        if isinstance(self.cell, Keyed):
            if not isinstance(call.key(self.cell.path), str):
                return not self._strict
            if not self.cell.has_room(call):
                return False
        cell = self.cell.at(call)
        return cell is None or self.holds(cell, call)

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        breach.needs = None
        if isinstance(self.cell, Keyed) and not self.cell.has_room(call):
            breach.fault = f"{self.cell.path.text} has more than {self.cell.bound} values"
        else:
            breach.fault = "as many calls are owed an answer as can be kept"


class Never(LiveGuard):
    """Cannot hold."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return False

    def passes(self, call: Call) -> bool:
        return False

    def explain(self, call: Call) -> Breach:
        return Breach(contract=self.contract, needs=self.guard.needs)


def same_scalar(found: Any, wanted: Any) -> bool:
    """
    Whether a state entry is the wanted value. A number is no boolean: 1 is not True.

    Only plain values are compared, so no object's own idea of equality runs here.
    """
    if type(found) not in _SCALARS or isinstance(found, bool) is not isinstance(wanted, bool):
        return False
    return bool(found == wanted)


def _wait(breach: Breach, cell: LiveCell, moment: float | None) -> None:
    if moment is not None and cell.timeline is not None:
        now = cell.timeline.now
        wait = max(0.0, moment - now)
        # So that adding it to now gets there, despite rounding.
        while now + wait < moment:
            wait = math.nextafter(wait, math.inf)
        breach.retry_after = wait
