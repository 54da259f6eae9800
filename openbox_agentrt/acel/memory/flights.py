"""Which calls are under way."""

from __future__ import annotations

from .call import JudgedCall
from .cell import LiveCell, after
from .clock import MonotoneClock


class Flights(LiveCell):
    """
    Keep the calls that were let through and have not ended.

    One of which nobody knows how it ended may still be under way, so it stays: for good, or until it is
    older than `within`.
    """

    __slots__ = ("_began", "timeline", "within")

    settles_by_ticket = True

    def __init__(self, *, timeline: MonotoneClock | None = None, within: float | None = None) -> None:
        self.timeline = timeline
        self.within = within
        # When each began, in the order of their beginnings.
        self._began: dict[int, float] = {}

    def reserve(self, call: JudgedCall) -> int:
        self._began[call.step] = 0.0 if self.timeline is None else self.timeline.now
        return call.step

    def commit(self, ticket: int, call: JudgedCall) -> None:
        self._began.pop(ticket, None)

    fail = undo = commit

    def ran_otherwise(self, ticket: int, call: JudgedCall, *, failed: bool) -> None:
        self._began.pop(ticket, None)

    def started(self) -> int:
        """Count the calls that are under way."""
        if self.timeline is not None and self.within is not None:
            for step, at in list(self._began.items()):
                if self.timeline.now - at <= self.within:
                    break
                del self._began[step]
        return len(self._began)

    def blame(self) -> int | None:
        """Give the step of the one that began first."""
        return next(iter(self._began), None)

    def free_at(self, n: int) -> float | None:
        """Say when there will be fewer than `n`, at least 1, if none of them ends; None for never."""
        if self.within is None:
            return None
        return after(list(self._began.values())[len(self._began) - n] + self.within)

    def idle(self) -> bool:
        return not self.started()

    def dump(self) -> list[list[float]]:
        return [[step, at] for step, at in self._began.items()]

    def load(self, data: list[list[float]]) -> None:
        self._began = {int(step): float(at) for step, at in data}
