"""
The comparisons that decide, and what to say when one does not hold.

`passes` is asked for every call and says yes or no. `explain` is asked only for a call that some
guard stopped, and finds out what would have to change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ..._values import dataclass, field
from ..contracts.rules import Guard
from ..match.keys import Key
from .call import JudgedCall
from .cell import LiveCell, Renewal

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
        key: The key of the contract, and
        values: its values for which it is broken, where a session's end shows it.
    """

    contract: TemporalContract | SessionRule
    needs: str | None = None
    blame: int | None = None
    retry_after: float | None = None
    remaining: str | None = None
    fault: str | None = None
    stops: bool = True
    key: Key | None = None
    values: list[str] = field(default_factory=list)

    def blocks(self) -> bool:
        """Tell whether it is a reason to refuse the call."""
        return self.stops and self.contract.mode == "enforce"

    def halts(self) -> bool:
        """Tell whether it is a reason to admit nothing more."""
        return self.contract.mode == "enforce" and self.contract.on_violation == "halt"


def blocked_by(breaches: Iterable[Breach]) -> bool:
    """Tell whether one of several is a reason to refuse the call."""
    return any(breach.blocks() for breach in breaches)


class LiveGuard(ABC):
    """
    Compare a call with what a session remembers, for one contract.

    Attributes:
        heeds_success: Whether it matters to it how many calls have succeeded, and not only how many came.
    """

    __slots__ = ("contract", "guard")

    heeds_success: ClassVar[bool] = True

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard) -> None:
        self.contract = contract
        self.guard = guard

    @abstractmethod
    def passes(self, call: JudgedCall) -> bool:
        """Tell whether it holds for the call. If that cannot be told, it does not."""

    def explain(self, call: JudgedCall) -> Breach:
        """Say why it does not hold."""
        return Breach(contract=self.contract, needs=self.guard.needs)

    def overshoots(self, call: JudgedCall) -> bool:
        """Tell whether what was known only after the call broke it. Most guards know everything before."""
        return False

    def told(self, call: JudgedCall) -> None:  # noqa: B027 - most guards have nothing to note
        """Take note that what it explained is reported."""

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        """Tell whether it looks at the same memory for a call as it was judged and as it ran."""
        return True

    def clocked(self) -> Any:
        """Give what knows the clock that it lives by, if there is one."""
        return None


class NeverHolds(LiveGuard):
    """Refuse every call that it is asked about."""

    __slots__ = ()

    heeds_success = False

    def passes(self, call: JudgedCall) -> bool:
        return False


class CellGuard(LiveGuard):
    """Compare a call with one piece of memory."""

    __slots__ = ("_fixed", "cell")

    # Whether what stands against a call is gone when its memory begins anew.
    renews: ClassVar[bool] = True

    def __init__(self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell) -> None:
        super().__init__(contract, guard)
        # Which class of cell it is follows from the guard's kind, see `SessionMemory.guard`.
        self.cell: Any = cell
        # Most cells are about every call, and nobody has to ask them.
        self._fixed: Any = cell if cell.fixed() else None

    @abstractmethod
    def holds(self, cell: Any, call: JudgedCall) -> bool:
        """Tell whether it holds; `cell` is the memory that is about the call."""

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        """Add what is known about why it does not hold."""

    def fits_alone(self, cell: Any, call: JudgedCall) -> bool:
        """Tell whether it would hold if nothing had been counted before the call."""
        return True

    def passes(self, call: JudgedCall) -> bool:
        cell = self._fixed or self.cell.at(call)
        return cell is not None and self.holds(cell, call)

    def explain(self, call: JudgedCall) -> Breach:
        breach = super().explain(call)
        cell = self.cell.at(call)
        if cell is None:
            breach.needs = None
            breach.fault = self.cell.unknown(call)
        else:
            self.detail(breach, cell, call)
            renewal = self.cell.renewal() if self.renews else None
            if renewal is not None and breach.fault is None:
                if self.fits_alone(cell, call):
                    wait_for(breach, self.cell, renewal.at)
                tell_renewal(breach, renewal)
        return breach

    def at_end(self, call: JudgedCall) -> Breach | None:
        """Say why it does not hold when the session ends, and for which values of its key."""
        broken = [
            (value, cell)
            for value, cell in self.cell.each()
            if cell.at(call) is None or not self.holds(cell, call)
        ]
        if not broken:
            return None
        cell = broken[0][1]
        breach = Breach(contract=self.contract, needs=self.guard.needs, stops=False)
        self.detail(breach, cell, call)
        breach.fault = cell.timeline.fault if cell.at(call) is None else None
        breach.key = self.cell.key
        breach.values = [value for value, _ in broken if value is not None]
        return breach

    def at_end_of(self, run: str, call: JudgedCall) -> Breach | None:
        """Say why it does not hold when a run ends, and for which values of its key."""
        key: Key = self.cell.key
        pieces = [(key.within_run(value or "", run), cell) for value, cell in self.cell.each()]
        own = [(value, cell) for value, cell in pieces if value is not None]
        if not own and key.is_run_alone:
            own = [("", self.cell.whole().blank)]
        broken = [(value, cell) for value, cell in own if cell.at(call) is None or not self.holds(cell, call)]
        if not broken:
            return None
        breach = Breach(contract=self.contract, needs=self.guard.needs, stops=False, key=key)
        self.detail(breach, broken[0][1], call)
        breach.values = [value for value, _ in broken if value]
        return breach

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        return bool(self.cell.is_same(call, ran))

    def clocked(self) -> Any:
        return self.cell


def tell_renewal(breach: Breach, renewal: Renewal) -> None:
    """Say until when a budget is used up that begins anew."""
    left = f"{breach.remaining} {renewal.this}, " if breach.remaining else ""
    breach.remaining = f"{left}{renewal.told}"


def wait_for(breach: Breach, cell: LiveCell, moment: float | None) -> None:
    """Say how long it takes until a moment, by the cell's clock."""
    if moment is not None and cell.timeline is not None:
        now = cell.timeline.now
        wait = max(0.0, moment - now)
        # So that adding it to now gets there, despite rounding.
        while now + wait < moment:
            wait = math.nextafter(wait, math.inf)
        breach.retry_after = wait
