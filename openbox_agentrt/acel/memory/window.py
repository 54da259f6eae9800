"""Remember when the calls of a sliding window were, so that old ones no longer count."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from ..contracts.rules import MAX_IN_WINDOW
from .call import JudgedCall
from .cell import LiveCell, after
from .clock import MonotoneClock
from .tally import Cap

T = TypeVar("T")


class Stamps(LiveCell):
    """Keep when the calls of a window were let through. One that is exactly `within` old still counts."""

    __slots__ = ("refund", "stamps", "timeline", "within")

    settles_by_ticket = True

    heeds_success = False
    timeline: MonotoneClock
    within: float

    def __init__(self, timeline: MonotoneClock, within: float, *, refund: bool = False) -> None:
        self.timeline = timeline
        self.within = within
        self.refund = refund
        self.stamps: deque[tuple[float, int]] = deque(maxlen=MAX_IN_WINDOW)

    def reserve(self, call: JudgedCall) -> tuple[float, int]:
        stamp = (self.timeline.now, call.step)
        self.stamps.append(stamp)
        return stamp

    def fail(self, ticket: tuple[float, int], call: JudgedCall) -> None:
        if self.refund:
            self.undo(ticket, call)

    def undo(self, ticket: tuple[float, int], call: JudgedCall) -> None:
        if ticket in self.stamps:
            self.stamps.remove(ticket)

    def started(self) -> int:
        """Give the number of calls of the window that were let through and not taken back."""
        stamps, now = self.stamps, self.timeline.now
        while stamps and now - stamps[0][0] > self.within:
            stamps.popleft()
        return len(stamps)

    def blame(self) -> int | None:
        """Give the step of the latest of them."""
        return self.stamps[-1][1] if self.stamps else None

    def free_at(self, n: int) -> float | None:
        """Say when there will be fewer than `n`, which is at least 1."""
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
    Keep when calls last succeeded. One that is exactly `within` old still counts.

    One that is `lasting` remembers that there was a call even when no success counts any more: a value
    that was used has to be accounted for at the end.
    """

    __slots__ = ("_lasting", "_live", "marks", "timeline", "within")

    settles_by_ticket = True

    timeline: MonotoneClock
    within: float

    def __init__(self, timeline: MonotoneClock, within: float, *, lasting: bool = False) -> None:
        self.timeline = timeline
        self.within = within
        self.marks: deque[float] = deque(maxlen=MAX_IN_WINDOW)
        self._lasting = lasting
        self._live = 0

    def reserve(self, call: JudgedCall) -> None:
        self._live += self._lasting

    def undo(self, ticket: None, call: JudgedCall) -> None:
        self._live -= self._lasting

    def commit(self, ticket: None, call: JudgedCall) -> None:
        self.marks.append(self.timeline.now)

    def succeeded(self) -> int:
        """Give the number of calls that succeeded in the window."""
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


class WindowCap(Cap):
    """Require that fewer than n calls of a window without a key were let through."""

    __slots__ = ()

    def passes(self, call: JudgedCall) -> bool:
        cell: Stamps = self.cell
        return cell.timeline.fault is None and cell.started() < self.guard.n


def put_in_time(entries: deque[tuple[float, T]], entry: tuple[float, T]) -> None:
    """Put an entry where its time belongs: what is corrected later counts from when it was let through."""
    place = len(entries)
    while place and entries[place - 1][0] > entry[0]:
        place -= 1
    entries.insert(place, entry)
