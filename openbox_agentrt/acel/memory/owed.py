"""Calls that are owed an answer, and the guards that report those that got none."""

from __future__ import annotations

from typing import Any

from ..contracts.rules import MAX_IN_WINDOW
from .call import JudgedCall
from .cell import LiveCell, Mover, Role, RoleMover
from .clock import MonotoneClock
from .guard import Breach, CellGuard


class Pending(LiveCell):
    """
    Keep the calls that are owed an answer.

    The answer has to come after them: it answers the calls of earlier steps, those that are still under
    way included. With a window, each call is kept with its time, and one that is too old stays owed
    until it was reported. Without one, of the calls that have ended only the latest is kept: what
    answers it answers the others.
    """

    __slots__ = ("_ended", "_owed", "timeline", "within")

    def __init__(self, *, timeline: MonotoneClock | None = None, within: float | None = None) -> None:
        self.timeline = timeline
        self.within = within
        # In the order of their steps, and so of their times.
        self._owed: dict[int, float] = {}
        self._ended: int | None = None

    def mover(self, role: Role) -> Mover:
        return _Open(self) if role == "open" else _Close(self)

    def open(self, step: int) -> int:
        """Add a call that is owed an answer."""
        self._owed[step] = 0.0 if self.timeline is None else self.timeline.now
        return step

    def ended(self, step: int) -> None:
        """Take note that it ran."""
        if self.timeline is None and step in self._owed:
            if self._ended is not None:
                self._owed.pop(min(step, self._ended), None)
            self._ended = step if self._ended is None else max(step, self._ended)

    def cancel(self, step: int) -> None:
        """Forget a call that never ran, or is no longer owed anything."""
        self._owed.pop(step, None)

    def close(self, step: int) -> None:
        """Take note of an answer to the calls of earlier steps."""
        self._owed = {s: at for s, at in self._owed.items() if s >= step or self._late(at)}
        if self._ended is not None and self._ended < step:
            self._ended = None

    def owed(self) -> list[int]:
        """List the steps of the calls that are owed an answer."""
        return list(self._owed)

    def overdue(self) -> list[int]:
        """List the steps of those whose time is up."""
        late = []
        for step, at in self._owed.items():
            if not self._late(at):
                break
            late.append(step)
        return late

    def full(self) -> bool:
        """Tell whether it keeps as many calls as it can."""
        return len(self._owed) >= MAX_IN_WINDOW

    def idle(self) -> bool:
        return not self._owed

    def dump(self) -> list[list[float]]:
        return [[step, at] for step, at in self._owed.items()]

    def load(self, data: list[list[float]]) -> None:
        self._owed = {int(step): float(at) for step, at in data}
        self._ended = max(self._owed, default=None)

    def _late(self, at: float) -> bool:
        return self.timeline is not None and self.within is not None and self.timeline.now - at > self.within


class _Open(RoleMover):
    __slots__ = ()

    role = "open"
    cell: Pending

    def reserve(self, call: JudgedCall) -> int:
        return self.cell.open(call.step)

    def commit(self, ticket: int, call: JudgedCall) -> None:
        self.cell.ended(ticket)

    fail = lose = commit

    def undo(self, ticket: int, call: JudgedCall) -> None:
        self.cell.cancel(ticket)


class _Close(RoleMover):
    __slots__ = ()

    role = "close"
    cell: Pending

    def reserve(self, call: JudgedCall) -> int:
        return call.step

    def commit(self, ticket: int, call: JudgedCall) -> None:
        self.cell.close(ticket)


class Settled(CellGuard):
    """Require that nothing is owed. Asked when the session ends."""

    __slots__ = ()

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return not cell.owed()

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        breach.blame = min(cell.owed(), default=None)


class Overdue(CellGuard):
    """Require that nothing is owed for too long. Each is reported once, and no call is refused for it."""

    __slots__ = ()

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return not cell.overdue()

    def passes(self, call: JudgedCall) -> bool:
        # A call whose key or time cannot be told is not late.
        cell = self.cell.at(call)
        return cell is None or self.holds(cell, call)

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        breach.stops = False
        breach.blame = cell.overdue()[0]

    def told(self, call: JudgedCall) -> None:
        cell = self.cell.at(call)
        late = [] if cell is None else cell.overdue()
        for step in late:
            cell.cancel(step)
        if late:
            self.cell.touch(call)
