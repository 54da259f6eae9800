"""Which call came immediately before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..contracts.rules import Guard
from .call import JudgedCall
from .cell import LiveCell
from .clock import MonotoneClock
from .guard import Breach, CellGuard

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract


class Latest(LiveCell):
    """
    Remember which call ran last.

    Attributes:
        top: The highest step that ran.
        flying: Steps under way.
    """

    __slots__ = ("flying", "top")

    def __init__(self) -> None:
        self.top = 0
        self.flying: set[int] = set()

    def reserve(self, call: JudgedCall) -> int:
        self.flying.add(call.step)
        return call.step

    def commit(self, ticket: int, call: JudgedCall) -> None:
        self.flying.discard(ticket)
        self.top = max(self.top, ticket)

    fail = lose = commit

    def undo(self, ticket: int, call: JudgedCall) -> None:
        self.flying.discard(ticket)

    def idle(self) -> bool:
        return not self.top and not self.flying

    def last_step(self) -> int:
        return self.dump()

    def dump(self) -> int:
        return max(self.flying | {self.top})

    def load(self, data: int) -> None:
        self.top = int(data)
        self.flying.clear()


class StepMark(LiveCell):
    """
    Remember which call succeeded last.

    Attributes:
        step: Its step; 0 if there was none.
        at: When.
    """

    __slots__ = ("at_time", "step", "timeline", "within")

    settles_by_ticket = True

    def __init__(self, *, timeline: MonotoneClock | None = None, within: float | None = None) -> None:
        self.timeline = timeline
        self.within = within
        self.step = 0
        self.at_time = 0.0

    def reserve(self, call: JudgedCall) -> int:
        return call.step

    def commit(self, ticket: int, call: JudgedCall) -> None:
        if ticket > self.step:
            self.step = ticket
            if self.timeline is not None:
                self.at_time = self.timeline.now

    def fresh(self) -> bool:
        """Tell whether it is recent enough."""
        if self.timeline is None or self.within is None:
            return True
        return self.timeline.now - self.at_time <= self.within

    def idle(self) -> bool:
        return not self.step

    def last_step(self) -> int:
        return self.step

    def dump(self) -> list[float]:
        return [self.step, self.at_time]

    def load(self, data: list[float]) -> None:
        self.step, self.at_time = int(data[0]), float(data[1])


class Next(CellGuard):
    """Require that the call before was the one, that it succeeded, and that nothing is under way since."""

    __slots__ = ("latest",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell, latest: LiveCell
    ) -> None:
        super().__init__(contract, guard, cell)
        self.latest: Any = latest

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        latest = self.latest.at(call)
        if latest is None or not cell.step or cell.step != latest.top or not cell.fresh():
            return False
        return all(step < latest.top for step in latest.flying)

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        latest = self.latest.at(call)
        breach.blame = max(latest.flying | {latest.top}) or None
