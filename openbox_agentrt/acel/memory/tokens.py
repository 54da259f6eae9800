"""Prerequisites of which each allows one call."""

from __future__ import annotations

import bisect
from typing import Any

from ..contracts.rules import MAX_IN_WINDOW
from .call import JudgedCall
from .cell import LiveCell, Mover, Role, RoleMover
from .clock import MonotoneClock
from .guard import CellGuard


class Tokens(LiveCell):
    """
    Keep the prerequisites that have not been used up.

    With `saving`, they add up; without, a new one replaces the old. In a window, the oldest is used
    first, and one that is older than the window is gone.
    """

    __slots__ = ("_given", "_refund", "_saving", "stamps", "timeline", "within")

    def __init__(
        self,
        *,
        saving: bool = True,
        refund: bool = False,
        timeline: MonotoneClock | None = None,
        within: float | None = None,
    ) -> None:
        self._saving = saving
        self._refund = refund
        self.timeline = timeline
        self.within = within
        self.stamps: list[float] = []
        self._given = 0

    def mover(self, role: Role) -> Mover:
        return _Give(self) if role == "give" else _Take(self)

    def left(self) -> int:
        """Count those that are left."""
        if self.timeline is not None and self.within is not None:
            while self.stamps and self.timeline.now - self.stamps[0] > self.within:
                del self.stamps[0]
        return len(self.stamps)

    def give(self) -> None:
        """Add one unused prerequisite."""
        self._given += 1
        if not self._saving:
            self.stamps.clear()
        elif len(self.stamps) >= MAX_IN_WINDOW:
            # Forgetting a prerequisite can only refuse more.
            del self.stamps[0]
        self.stamps.append(0.0 if self.timeline is None else self.timeline.now)

    def take(self) -> tuple[float, int] | None:
        """Use one up, and return what `put_back` needs."""
        return (self.stamps.pop(0), self._given) if self.left() else None

    def put_back(self, ticket: tuple[float, int] | None) -> None:
        """Give back one that was used by a call that never ran."""
        # Without saving, one that was given since has replaced it.
        if ticket is not None and (self._saving or ticket[1] == self._given):
            bisect.insort(self.stamps, ticket[0])

    def settle_failed(self, ticket: tuple[float, int] | None) -> None:
        """Take note that the call that used one ran and failed."""
        if self._refund:
            self.put_back(ticket)

    def idle(self) -> bool:
        return not self.left()

    def dump(self) -> list[float]:
        return list(self.stamps)

    def load(self, data: list[float]) -> None:
        self.stamps = list(map(float, data))


class _Give(RoleMover):
    __slots__ = ()

    role = "give"
    cell: Tokens

    def reserve(self, call: JudgedCall) -> None:
        return None

    def commit(self, ticket: None, call: JudgedCall) -> None:
        self.cell.give()


class _Take(RoleMover):
    __slots__ = ()

    role = "take"
    cell: Tokens

    def reserve(self, call: JudgedCall) -> tuple[float, int] | None:
        return self.cell.take()

    def fail(self, ticket: tuple[float, int] | None, call: JudgedCall) -> None:
        self.cell.settle_failed(ticket)

    def undo(self, ticket: tuple[float, int] | None, call: JudgedCall) -> None:
        self.cell.put_back(ticket)


class Token(CellGuard):
    """Require an unused prerequisite."""

    __slots__ = ()

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return bool(cell.left())
