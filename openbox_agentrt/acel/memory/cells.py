"""
What a session remembers.

A session does not keep its calls to judge the next one. It keeps cells: numbers and short lists,
each about the calls that some selector accepts. This is why judging a call costs the same at its
hundred-thousandth as at its first.

Every cell follows a call through two phases. `reserve` is told when a call is let through; then,
once, one of `commit` (it succeeded), `fail` (it ran and failed), `lose` (nobody knows), or `undo` (it
never ran). The rules for whoever adds a cell:

* What lets other calls through counts in `commit` and nowhere else.
* What keeps other calls out counts in `reserve`. `undo` gives back exactly what `reserve` took,
  whatever happened in between. `fail` keeps it, unless the cell refunds; `lose` keeps it always.
* INVARIANT: the ticket that `reserve` returns is all that the others need. Many calls are under
  way at once, and they finish in any order.
* Nothing here runs a caller's code, waits, or takes a lock: the store holds one around all of it.
* Memory is bounded. At the bound a cell refuses (its guard fails) rather than forget, except where
  forgetting can only refuse more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, ClassVar, Literal

from ..contracts.rules import MAX_IN_WINDOW
from .call import Call
from .clock import Timeline

Role = Literal["count", "give", "take", "open", "close"]


class Mover:
    """What follows a call through its phases. Unless it says otherwise, a phase means nothing to it."""

    __slots__ = ()

    def reserve(self, call: Call) -> Any:
        """The call is let through. Returns a ticket."""

    def commit(self, ticket: Any, call: Call) -> None:
        """It ran and succeeded."""

    def fail(self, ticket: Any, call: Call) -> None:
        """It ran and failed."""

    def lose(self, ticket: Any, call: Call) -> None:
        """Nobody knows how it ended, and nobody will."""

    def undo(self, ticket: Any, call: Call) -> None:
        """It never ran."""


class RoleMover(Mover):
    """
    Follows a call that is one particular thing to a cell.

    Attributes:
        cell: The cell.
        role: What the call is to it.
    """

    __slots__ = ("cell",)

    role: ClassVar[Role]

    def __init__(self, cell: Any) -> None:
        self.cell = cell


class LiveCell(Mover, ABC):
    """
    One piece of memory.

    Attributes:
        timeline: The clock that it lives by, if time matters to it.
        within: Seconds after which what it remembers no longer counts.
    """

    __slots__ = ()

    timeline: Timeline | None = None
    within: float | None = None

    def at(self, call: Call) -> LiveCell | None:
        """The memory that is about this call; None if that cannot be told."""
        return self if self.timeline is None or self.timeline.fault is None else None

    def mover(self, role: Role) -> Mover:
        """What follows a call that is `role` to this cell."""
        return self

    def full(self) -> bool:
        """Whether it keeps as much as it can."""
        return False

    @abstractmethod
    def idle(self) -> bool:
        """Whether it remembers nothing, so that it could as well not be there."""

    @abstractmethod
    def dump(self) -> Any:
        """What it remembers, as JSON. Calls under way are unknown outcomes."""

    @abstractmethod
    def load(self, data: Any) -> None:
        """Remember what `dump` gave."""


class Tally(LiveCell):
    """
    How many calls there were.

    Attributes:
        live: Calls that were let through and not taken back.
        done: Calls that succeeded.
        first: Step of the first live call, where known.
    """

    __slots__ = ("done", "first", "live", "refund")

    def __init__(self, *, refund: bool = False) -> None:
        self.live = 0
        self.done = 0
        self.first: int | None = None
        self.refund = refund

    # NB: MemoryStore does the work of `reserve` and `commit` itself for the tallies of a plan.
    def reserve(self, call: Call) -> int:
        if not self.live:
            self.first = call.step
        self.live += 1
        return call.step

    def commit(self, ticket: int, call: Call) -> None:
        self.done += 1

    def fail(self, ticket: int, call: Call) -> None:
        if self.refund:
            self.undo(ticket, call)

    def undo(self, ticket: int, call: Call) -> None:
        self.live -= 1
        if self.first == ticket:
            self.first = None

    def started(self) -> int:
        """Calls that were let through and not taken back."""
        return self.live

    def succeeded(self) -> int:
        """Calls that succeeded."""
        return self.done

    def blame(self) -> int | None:
        """Step of a call that keeps others out."""
        return self.first

    def free_at(self, n: int) -> float | None:
        """When there will be fewer than `n`; None for never."""
        return None

    def idle(self) -> bool:
        return not self.live

    def dump(self) -> list[int | None]:
        return [self.live, self.done, self.first]

    def load(self, data: list[int]) -> None:
        self.live, self.done, self.first = data


class Stamps(LiveCell):
    """When the calls of a window were let through. One that is exactly `within` old still counts."""

    __slots__ = ("refund", "stamps", "timeline", "within")

    timeline: Timeline
    within: float

    def __init__(self, timeline: Timeline, within: float, *, refund: bool = False) -> None:
        self.timeline = timeline
        self.within = within
        self.refund = refund
        self.stamps: deque[tuple[float, int]] = deque(maxlen=MAX_IN_WINDOW)

    def reserve(self, call: Call) -> tuple[float, int]:
        stamp = (self.timeline.now, call.step)
        self.stamps.append(stamp)
        return stamp

    def fail(self, ticket: tuple[float, int], call: Call) -> None:
        if self.refund:
            self.undo(ticket, call)

    def undo(self, ticket: tuple[float, int], call: Call) -> None:
        if ticket in self.stamps:
            self.stamps.remove(ticket)

    def started(self) -> int:
        """Calls of the window that were let through and not taken back."""
        stamps, now, within = self.stamps, self.timeline.now, self.within
        while stamps and now - stamps[0][0] > within:
            stamps.popleft()
        return len(stamps)

    def blame(self) -> int | None:
        """Step of the latest of them."""
        return self.stamps[-1][1] if self.stamps else None

    def free_at(self, n: int) -> float | None:
        """When there will be fewer than `n`, which is at least 1."""
        return after(self.stamps[len(self.stamps) - n][0] + self.within)

    def idle(self) -> bool:
        return not self.started()

    def dump(self) -> list[list[float]]:
        return [list(stamp) for stamp in self.stamps]

    def load(self, data: list[list[Any]]) -> None:
        self.stamps.clear()
        self.stamps.extend((float(at), int(step)) for at, step in data)


class Marks(LiveCell):
    """
    When calls last succeeded. One that is exactly `within` old still counts.

    One that is `lasting` remembers that there was a call even when no success counts any more: a value
    that was used has to be accounted for at the end.
    """

    __slots__ = ("_lasting", "_live", "marks", "timeline", "within")

    timeline: Timeline
    within: float

    def __init__(self, timeline: Timeline, within: float, *, lasting: bool = False) -> None:
        self.timeline = timeline
        self.within = within
        self.marks: deque[float] = deque(maxlen=MAX_IN_WINDOW)
        self._lasting = lasting
        self._live = 0

    def reserve(self, call: Call) -> None:
        self._live += self._lasting

    def undo(self, ticket: None, call: Call) -> None:
        self._live -= self._lasting

    def commit(self, ticket: None, call: Call) -> None:
        self.marks.append(self.timeline.now)

    def succeeded(self) -> int:
        """Calls that succeeded in the window."""
        marks, now, within = self.marks, self.timeline.now, self.within
        while marks and now - marks[0] > within:
            marks.popleft()
        return len(marks)

    def idle(self) -> bool:
        return not self.succeeded() and not self._live

    def dump(self) -> dict[str, Any]:
        return {"marks": list(self.marks), "live": self._live}

    def load(self, data: dict[str, Any]) -> None:
        self.marks.clear()
        self.marks.extend(map(float, data["marks"]))
        self._live = int(data["live"])


def after(moment: float) -> float:
    """The first time that is later than `moment`: at `moment` itself, a window is still open."""
    return math.nextafter(moment, math.inf)
