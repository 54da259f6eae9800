"""Memory that counts anew with each hour, day, week or month, by the calendar of a time zone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from ..._plain.calendar import Per
from ...fleet.periods import PRESENT, SECOND, edges_around, zone
from .call import JudgedCall
from .cell import ForwardingMover, LiveCell, Mover, Renewal, Role
from .clock import MonotoneClock

# Years 2 to 9998: of others there is no date for a period before or after. Times in milliseconds are beyond.
_FIRST, _LAST = -62_104_060_800, 253_370_764_800


class Periodic(LiveCell):
    """
    Keep a cell for the present period, and begin a new one with the next.

    A call that is under way when a period ends is settled where it began, so it gives nothing back to a
    later one.
    """

    __slots__ = ("_current", "_fault", "_make", "_per", "_span", "_tz", "key", "timeline")

    timeline: MonotoneClock

    def __init__(self, make: Callable[[], LiveCell], *, per: Per, tz: str, timeline: MonotoneClock) -> None:
        self.timeline = timeline
        self._make = make
        self._per: Per = per
        self._tz = tz
        self._span = (0.0, 0.0)
        self._fault: str | None = None
        self._current = make()
        self.key = self._current.key

    def whole(self) -> LiveCell:
        now = self.timeline.now
        # Before the clock was first looked at, there is no period.
        if now > -math.inf and not self._span[0] <= now < self._span[1]:
            self._fault = (
                None if _FIRST <= now < _LAST else "the clock shows no time of the calendar in seconds"
            )
            if self._fault is not None:
                return self._current
            span = span_of(self._per, self._tz, now)
            if self._span[1]:
                self._current = self._make()
            self._span = span
        return self._current

    def at(self, call: JudgedCall) -> LiveCell | None:
        current = self.whole()
        return None if (self.timeline.fault or self._fault) is not None else current.at(call)

    def unknown(self, call: JudgedCall) -> str | None:
        current = self.whole()
        return self.timeline.fault or self._fault or current.unknown(call)

    def forget_run(self, run: str) -> None:
        self.whole().forget_run(run)

    def renewal(self) -> Renewal:
        self.whole()
        return renewal_at(self._per, self._tz, self._span[1])

    def each(self) -> Iterable[tuple[str | None, LiveCell]]:
        return self.whole().each()

    def mover(self, role: Role) -> Mover:
        return _PeriodicMover(self, role)

    def full(self) -> bool:
        return self.whole().full()

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        return self.whole().is_same(call, ran)

    def idle(self) -> bool:
        return self.whole().idle()

    def dump(self) -> dict[str, Any]:
        current = self.whole()
        return {"from": self._span[0], "to": self._span[1], "memory": current.dump()}

    def load(self, data: dict[str, Any]) -> None:
        self._current = self._make()
        self._current.load(data["memory"])
        self._span = (float(data["from"]), float(data["to"]))
        self._fault = None


class _PeriodicMover(ForwardingMover):
    """Follow a call to the memory of the period in which it began."""

    __slots__ = ()

    cell: Periodic

    def reserve(self, call: JudgedCall) -> tuple[Mover, Any]:
        mover = self.cell.whole().mover(self.role)
        return mover, mover.reserve(call)


def span_of(per: Per, tz: str, now: float) -> tuple[float, float]:
    """Give the beginning and the end of the period around a time, in seconds since the epoch."""
    moment = int(now * SECOND)
    edges = edges_around(per, tz, moment)
    start, end = next((a, b) for a, b in itertools.pairwise(edges) if a <= moment < b)
    return start / SECOND, end / SECOND


def renewal_at(per: Per, tz: str, moment: float) -> Renewal:
    """Say when a period ends: its time, and its day where that is not the next midnight."""
    written = datetime.fromtimestamp(moment, UTC if tz == "UTC" else zone(tz))
    day = "" if per in ("hour", "day") else written.strftime("%Y-%m-%d ")
    return Renewal(moment, PRESENT[per], f"free again at {day}{written:%H:%M} {tz}")
