"""Count how many calls there were, and guard limits on their number."""

from __future__ import annotations

from typing import Any

from .call import JudgedCall
from .cell import LiveCell
from .guard import Breach, CellGuard, wait_for


class Tally(LiveCell):
    """
    Count the calls that were let through, and those that succeeded.

    Attributes:
        live: Calls that were let through and not taken back.
        done: Calls that succeeded.
        first: Step of the first live call, where known.
    """

    __slots__ = ("done", "first", "live", "refund")

    settles_by_ticket = True

    def __init__(self, *, refund: bool = False) -> None:
        self.live = 0
        self.done = 0
        self.first: int | None = None
        self.refund = refund

    # NB: SessionStore does the work of `reserve` and `commit` itself for the tallies of a plan.
    def reserve(self, call: JudgedCall) -> int:
        if not self.live:
            self.first = call.step
        self.live += 1
        return call.step

    def commit(self, ticket: int, call: JudgedCall) -> None:
        self.done += 1

    def fail(self, ticket: int, call: JudgedCall) -> None:
        if self.refund:
            self.undo(ticket, call)

    def undo(self, ticket: int, call: JudgedCall) -> None:
        self.live -= 1
        if self.first == ticket:
            self.first = None

    def started(self) -> int:
        """Give the number of calls that were let through and not taken back."""
        return self.live

    def succeeded(self) -> int:
        """Give the number of calls that succeeded."""
        return self.done

    def blame(self) -> int | None:
        """Give the step of a call that keeps others out."""
        return self.first

    def free_at(self, n: int) -> float | None:
        """Say when there will be fewer than `n`; None for never."""
        return None

    def idle(self) -> bool:
        return not self.live

    def dump(self) -> list[int | None]:
        return [self.live, self.done, self.first]

    def load(self, data: list[int]) -> None:
        self.live, self.done, self.first = data


class Need(CellGuard):
    """Require that so many calls have succeeded."""

    __slots__ = ()

    renews = False

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return bool(cell.succeeded() >= self.guard.n)


class Ban(CellGuard):
    """Require that no call was let through."""

    __slots__ = ()

    heeds_success = False

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return not cell.started()

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        breach.blame = cell.blame()
        wait_for(breach, cell, cell.free_at(1))


class Cap(CellGuard):
    """Require that fewer than n calls were let through."""

    __slots__ = ()

    heeds_success = False

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return bool(cell.started() < self.guard.n)

    def fits_alone(self, cell: Any, call: JudgedCall) -> bool:
        return bool(self.guard.n)

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        n = int(self.guard.n)
        breach.remaining = f"0 left of {n}"
        if n:
            breach.blame = cell.blame()
            wait_for(breach, cell, cell.free_at(n))
