"""
The comparisons that decide, and what to say when one does not hold.

`passes` is asked for every call and says yes or no. `explain` is asked only for a call that some
guard stopped, and finds out what would have to change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..contracts.rules import Guard
from .call import Call
from .cells import LiveCell, Stamps
from .clock import Timeline
from .keyed import Keyed

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract


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


class LiveGuard(ABC):
    """A guard of a session."""

    __slots__ = ("contract", "guard")

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard) -> None:
        self.contract = contract
        self.guard = guard

    @abstractmethod
    def passes(self, call: Call) -> bool:
        """Whether it holds for the call. If that cannot be told, it does not."""

    def explain(self, call: Call) -> Breach:
        """Why it does not hold."""
        return Breach(contract=self.contract, needs=self.guard.needs)

    def overshoots(self, call: Call) -> bool:
        """Whether what was known only after the call broke it. Most guards know everything before."""
        return False

    def clocked(self) -> Any:
        """What knows the clock that it lives by, if there is one."""
        return None


class CellGuard(LiveGuard):
    """A guard that looks at memory."""

    __slots__ = ("_fixed", "cell")

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell) -> None:
        super().__init__(contract, guard)
        # Which class of cell it is follows from the guard's kind, see `bind`.
        self.cell: Any = cell
        # Most cells are about every call, and nobody has to ask them.
        fixed = cell.timeline is None and not isinstance(cell, Keyed)
        self._fixed: Any = cell if fixed else None

    @abstractmethod
    def holds(self, cell: Any, call: Call) -> bool:
        """Whether it holds; `cell` is the memory that is about the call."""

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        """Say what is known about why."""

    def passes(self, call: Call) -> bool:
        cell = self._fixed or self.cell.at(call)
        return cell is not None and self.holds(cell, call)

    def explain(self, call: Call) -> Breach:
        breach = super().explain(call)
        cell = self.cell.at(call)
        if cell is None:
            breach.needs = None
            breach.fault = self._unknown(call)
        else:
            self.detail(breach, cell, call)
        return breach

    def at_end(self, call: Call) -> Breach | None:
        """Why it does not hold when the session ends: for the first value it fails for, if it has a key."""
        keyed = isinstance(self.cell, Keyed)
        cells: list[Any] = [cell for _, cell in self.cell.cells()] if keyed else [self.cell]
        for cell in cells:
            unknown = cell.at(call) is None
            if unknown or not self.holds(cell, call):
                breach = Breach(contract=self.contract, needs=self.guard.needs, stops=False)
                self.detail(breach, cell, call)
                breach.fault = cell.timeline.fault if unknown else None
                return breach
        return None

    def clocked(self) -> Any:
        return self.cell

    def _unknown(self, call: Call) -> str | None:
        if isinstance(self.cell, Keyed):
            key = call.key(self.cell.path)
            if not isinstance(key, str):
                return str(key)
        timeline: Timeline = self.cell.timeline
        return timeline.fault


class Need(CellGuard):
    """So many calls have succeeded."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return bool(cell.succeeded() >= self.guard.n)


class Ban(CellGuard):
    """No call was let through."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return not cell.started()

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        breach.blame = cell.blame()
        wait_for(breach, cell, cell.free_at(1))


class Cap(CellGuard):
    """Fewer than n calls were let through."""

    __slots__ = ()

    def passes(self, call: Call) -> bool:
        cell = self.cell
        if type(cell) is Stamps:
            return bool(cell.timeline.fault is None and cell.started() < self.guard.n)
        return super().passes(call)

    def holds(self, cell: Any, call: Call) -> bool:
        return bool(cell.started() < self.guard.n)

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        n = int(self.guard.n)
        breach.remaining = f"0 left of {n}"
        if n:
            breach.blame = cell.blame()
            wait_for(breach, cell, cell.free_at(n))


class Room(CellGuard):
    """There is memory for what the call would change."""

    __slots__ = ("_strict",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell, *, strict: bool
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

    def passes(self, call: Call) -> bool:
        return False


def wait_for(breach: Breach, cell: LiveCell, moment: float | None) -> None:
    """Say how long it takes until a moment, by the cell's clock."""
    if moment is not None and cell.timeline is not None:
        now = cell.timeline.now
        wait = max(0.0, moment - now)
        # So that adding it to now gets there, despite rounding.
        while now + wait < moment:
            wait = math.nextafter(wait, math.inf)
        breach.retry_after = wait
