"""
The cells in which a session remembers its calls, and the rules for whoever adds one.

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
* What a call found out is read by `learn`, before the store takes its lock: results are large and may be
  anything. It is plain JSON under the cell's own name and goes into the journal as it is. `commit` and
  `keep` remember it.
* Nothing else here runs a caller's code, waits, or takes a lock: the store holds one around all of it.
* Memory is bounded. At the bound a cell refuses (its guard fails) rather than forget, except where
  forgetting can only refuse more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..._values import dataclass
from ..match.keys import Key
from .call import JudgedCall
from .clock import MonotoneClock

if TYPE_CHECKING:
    from ..match.results import Result

Role = Literal["count", "give", "take", "void", "open", "close"]


LearnsFrom = Literal["result", "arguments"]


@dataclass(frozen=True, slots=True)
class Renewal:
    """Say when memory begins anew: the time in seconds, the period in words, and both in words."""

    at: float
    this: str
    told: str


class Mover:
    """
    Follow a call through its phases. Unless it says otherwise, a phase means nothing to it.

    Attributes:
        learns: The name under which what it learns from a call is written down; None for most, which learn
            nothing.
        heeds_success: Whether `commit` means anything to it, for a call that ran as it was judged.
        learns_from: What it reads. What is read out of arguments can be read again by whoever has those.
        settles_by_ticket: Whether a ticket is plain data, and settles a call that memory was dumped under as
            it would have settled it before.
    """

    __slots__ = ()

    heeds_success: bool = True
    settles_by_ticket: ClassVar[bool] = False
    learns: str | None = None
    learns_from: LearnsFrom = "result"

    def learn(self, call: JudgedCall, result: Result) -> Any:
        """
        Read out of a call that succeeded what it is to remember, as JSON; None for nothing.

        The store's lock is not held, and nothing is remembered yet.
        """

    def keep(self, learnt: Any, call: JudgedCall) -> None:
        """Remember what `learn` gave, or what stands in the journal in its place."""

    def reserve(self, call: JudgedCall) -> Any:
        """Take note that the call is let through, and return a ticket."""

    def commit(self, ticket: Any, call: JudgedCall) -> None:
        """Take note that it ran and succeeded."""

    def fail(self, ticket: Any, call: JudgedCall) -> None:
        """Take note that it ran and failed."""

    def lose(self, ticket: Any, call: JudgedCall) -> None:
        """Take note that nobody knows how it ended, and nobody will."""

    def undo(self, ticket: Any, call: JudgedCall) -> None:
        """Take note that it never ran, and give back what `reserve` took."""

    def ran_otherwise(self, ticket: Any, call: JudgedCall, *, failed: bool) -> None:
        """Take note that it ran, and not as what was let through. It limits as that, and allows nothing."""
        (self.fail if failed else self.lose)(ticket, call)

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        """Tell whether it moves the same memory for a call as it was judged and as it ran."""
        return True


class RoleMover(Mover):
    """
    Follow a call that is one particular thing to a cell.

    Attributes:
        cell: The cell.
        role: What the call is to it.
    """

    __slots__ = ("cell",)

    role: ClassVar[Role]

    def __init__(self, cell: Any) -> None:
        self.cell = cell


class ForwardingMover(Mover):
    """
    Move by movers that are found anew for each call: a ticket is such a mover and what that gave.

    Args:
        cell: The memory in which they are found.
        role: What calls have to do with it.
    """

    __slots__ = ("cell", "role")

    def __init__(self, cell: LiveCell, role: Role) -> None:
        self.cell: Any = cell
        self.role = role

    def landed(self, ticket: Any) -> Iterable[tuple[Mover, Any]]:
        """Give the mover that a ticket is of, if there is one, and its own ticket, once the call is over."""
        return (ticket,)

    def commit(self, ticket: Any, call: JudgedCall) -> None:
        for mover, inner in self.landed(ticket):
            mover.commit(inner, call)

    def fail(self, ticket: Any, call: JudgedCall) -> None:
        for mover, inner in self.landed(ticket):
            mover.fail(inner, call)

    def lose(self, ticket: Any, call: JudgedCall) -> None:
        for mover, inner in self.landed(ticket):
            mover.lose(inner, call)

    def undo(self, ticket: Any, call: JudgedCall) -> None:
        for mover, inner in self.landed(ticket):
            mover.undo(inner, call)

    def ran_otherwise(self, ticket: Any, call: JudgedCall, *, failed: bool) -> None:
        for mover, inner in self.landed(ticket):
            mover.ran_otherwise(inner, call, failed=failed)

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        return bool(self.cell.is_same(call, ran))


class LiveCell(Mover, ABC):
    """
    A session keeps one piece of memory in each cell.

    Attributes:
        timeline: The clock that it lives by, if time matters to it.
        within: Seconds after which what it remembers no longer counts.
        key: The argument that splits it, for one that is split.
    """

    __slots__ = ()

    timeline: MonotoneClock | None = None
    within: float | None = None
    key: Key | None = None

    def at(self, call: JudgedCall) -> LiveCell | None:
        """Find the memory that is about this call; None if that cannot be told."""
        return self if self.timeline is None or self.timeline.fault is None else None

    def fixed(self) -> bool:
        """Tell whether `at` is this very cell for every call, so that nobody has to ask."""
        return self.timeline is None

    def now(self) -> float:
        """Tell the time by its clock; 0 if time does not matter to it."""
        return 0.0 if self.timeline is None else self.timeline.now

    def each(self) -> Iterable[tuple[str | None, LiveCell]]:
        """List every piece of memory, with the value of its key where there is one."""
        return ((None, self),)

    def unknown(self, call: JudgedCall) -> str | None:
        """Say why `at` is None."""
        return None if self.timeline is None else self.timeline.fault

    def whole(self) -> LiveCell:
        """Give the memory of now: a cell that begins anew some time is another one then."""
        return self

    def forget_run(self, run: str) -> None:
        """Drop what it remembers of a run that is over."""

    def renewal(self) -> Renewal | None:
        """Say when it begins anew; None for never."""
        return None

    def mover(self, role: Role) -> Mover:
        """Give what follows a call that is `role` to this cell."""
        return self

    def full(self) -> bool:
        """Tell whether it keeps as much as it can."""
        return False

    @abstractmethod
    def idle(self) -> bool:
        """Tell whether it remembers nothing, so that it could as well not be there."""

    def touch(self, call: JudgedCall) -> None:
        """Take note that what it remembers of a call was changed by no mover."""

    def last_step(self) -> int:
        """Give the latest step that it knows of, by which the oldest of several is found."""
        return 0

    @abstractmethod
    def dump(self) -> Any:
        """Give what it remembers as JSON. Calls under way are unknown outcomes."""

    @abstractmethod
    def load(self, data: Any) -> None:
        """Remember what `dump` gave, in place of everything else."""


def after(moment: float) -> float:
    """Give the first time that is later than `moment`: at `moment` itself, a window is still open."""
    return math.nextafter(moment, math.inf)
