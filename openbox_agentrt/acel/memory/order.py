"""Cells about what came after what."""

from __future__ import annotations

import bisect

from ..contracts.rules import MAX_IN_WINDOW
from .call import Call
from .cells import LiveCell, Mover, Role, RoleMover
from .clock import Timeline


class Tokens(LiveCell):
    """
    Prerequisites that have not been used up.

    With `saving`, they add up; without, a new one replaces the old. In a window, the oldest is used
    first, and one that is older than the window is gone.
    """

    __slots__ = ("_given", "_refund", "_saving", "stamps", "timeline", "within")

    def __init__(
        self,
        *,
        saving: bool = True,
        refund: bool = False,
        timeline: Timeline | None = None,
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
        """How many there are."""
        if self.timeline is not None and self.within is not None:
            while self.stamps and self.timeline.now - self.stamps[0] > self.within:
                del self.stamps[0]
        return len(self.stamps)

    def give(self) -> None:
        """One more."""
        self._given += 1
        if not self._saving:
            self.stamps.clear()
        elif len(self.stamps) >= MAX_IN_WINDOW:
            # Forgetting a prerequisite can only refuse more.
            del self.stamps[0]
        self.stamps.append(0.0 if self.timeline is None else self.timeline.now)

    def take(self) -> tuple[float, int] | None:
        """Use one up. Returns what `put_back` needs."""
        return (self.stamps.pop(0), self._given) if self.left() else None

    def put_back(self, ticket: tuple[float, int] | None) -> None:
        """The call that used it never ran."""
        # Without saving, one that was given since has replaced it.
        if ticket is not None and (self._saving or ticket[1] == self._given):
            bisect.insort(self.stamps, ticket[0])

    def settle_failed(self, ticket: tuple[float, int] | None) -> None:
        """The call that used it ran and failed."""
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

    def reserve(self, call: Call) -> None:
        return None

    def commit(self, ticket: None, call: Call) -> None:
        self.cell.give()


class _Take(RoleMover):
    __slots__ = ()

    role = "take"
    cell: Tokens

    def reserve(self, call: Call) -> tuple[float, int] | None:
        return self.cell.take()

    def fail(self, ticket: tuple[float, int] | None, call: Call) -> None:
        self.cell.settle_failed(ticket)

    def undo(self, ticket: tuple[float, int] | None, call: Call) -> None:
        self.cell.put_back(ticket)


class Pending(LiveCell):
    """
    Calls that are owed an answer.

    The answer has to come after them: it answers the calls of earlier steps, those that are still under
    way included. With a window, each call is kept with its time, and one that is too old stays owed
    until it was reported. Without one, of the calls that have ended only the latest is kept: what
    answers it answers the others.
    """

    __slots__ = ("_ended", "_owed", "timeline", "within")

    def __init__(self, *, timeline: Timeline | None = None, within: float | None = None) -> None:
        self.timeline = timeline
        self.within = within
        # In the order of their steps, and so of their times.
        self._owed: dict[int, float] = {}
        self._ended: int | None = None

    def mover(self, role: Role) -> Mover:
        return _Open(self) if role == "open" else _Close(self)

    def open(self, step: int) -> int:
        """A call that is owed an answer."""
        self._owed[step] = 0.0 if self.timeline is None else self.timeline.now
        return step

    def ended(self, step: int) -> None:
        """It ran."""
        if self.timeline is None and step in self._owed:
            if self._ended is not None:
                self._owed.pop(min(step, self._ended), None)
            self._ended = step if self._ended is None else max(step, self._ended)

    def cancel(self, step: int) -> None:
        """It never ran, or is no longer owed anything."""
        self._owed.pop(step, None)

    def close(self, step: int) -> None:
        """The answer."""
        self._owed = {s: at for s, at in self._owed.items() if s >= step or self._late(at)}
        if self._ended is not None and self._ended < step:
            self._ended = None

    def owed(self) -> list[int]:
        """Steps of the calls that are owed an answer."""
        return list(self._owed)

    def overdue(self) -> list[int]:
        """Steps of those whose time is up."""
        late = []
        for step, at in self._owed.items():
            if not self._late(at):
                break
            late.append(step)
        return late

    def full(self) -> bool:
        """Whether it keeps as many calls as it can."""
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

    def reserve(self, call: Call) -> int:
        return self.cell.open(call.step)

    def commit(self, ticket: int, call: Call) -> None:
        self.cell.ended(ticket)

    def fail(self, ticket: int, call: Call) -> None:
        self.cell.ended(ticket)

    def lose(self, ticket: int, call: Call) -> None:
        self.cell.ended(ticket)

    def undo(self, ticket: int, call: Call) -> None:
        self.cell.cancel(ticket)


class _Close(RoleMover):
    __slots__ = ()

    role = "close"
    cell: Pending

    def reserve(self, call: Call) -> int:
        return call.step

    def commit(self, ticket: int, call: Call) -> None:
        self.cell.close(ticket)


class Latest(LiveCell):
    """
    The call before the next one.

    Attributes:
        top: The highest step that ran.
        flying: Steps under way.
    """

    __slots__ = ("flying", "top")

    def __init__(self) -> None:
        self.top = 0
        self.flying: set[int] = set()

    def reserve(self, call: Call) -> int:
        self.flying.add(call.step)
        return call.step

    def commit(self, ticket: int, call: Call) -> None:
        self.flying.discard(ticket)
        self.top = max(self.top, ticket)

    def fail(self, ticket: int, call: Call) -> None:
        self.commit(ticket, call)

    def lose(self, ticket: int, call: Call) -> None:
        self.commit(ticket, call)

    def undo(self, ticket: int, call: Call) -> None:
        self.flying.discard(ticket)

    def idle(self) -> bool:
        return not self.top and not self.flying

    def dump(self) -> int:
        return max(self.flying | {self.top})

    def load(self, data: int) -> None:
        self.top = int(data)


class StepMark(LiveCell):
    """
    The latest call that succeeded.

    Attributes:
        step: Its step; 0 if there was none.
        at: When.
    """

    __slots__ = ("at_time", "step", "timeline", "within")

    def __init__(self, *, timeline: Timeline | None = None, within: float | None = None) -> None:
        self.timeline = timeline
        self.within = within
        self.step = 0
        self.at_time = 0.0

    def reserve(self, call: Call) -> int:
        return call.step

    def commit(self, ticket: int, call: Call) -> None:
        if ticket > self.step:
            self.step = ticket
            if self.timeline is not None:
                self.at_time = self.timeline.now

    def fresh(self) -> bool:
        """Whether it is recent enough."""
        if self.timeline is None or self.within is None:
            return True
        return self.timeline.now - self.at_time <= self.within

    def idle(self) -> bool:
        return not self.step

    def dump(self) -> list[float]:
        return [self.step, self.at_time]

    def load(self, data: list[float]) -> None:
        self.step, self.at_time = int(data[0]), float(data[1])
