"""Guards about what came before, and what is still to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..contracts.rules import Guard
from .call import Call
from .cells import LiveCell
from .guards import Breach, CellGuard

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract


class Token(CellGuard):
    """An unused prerequisite is there."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return bool(cell.left())


class Next(CellGuard):
    """The call before was the one, it succeeded, and nothing is under way since."""

    __slots__ = ("latest",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell, latest: LiveCell
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


class Settled(CellGuard):
    """Nothing is owed. Asked when the session ends."""

    __slots__ = ()

    def holds(self, cell: Any, call: Call) -> bool:
        return not cell.owed()

    def detail(self, breach: Breach, cell: Any, call: Call) -> None:
        breach.blame = min(cell.owed(), default=None)


class Overdue(CellGuard):
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
