"""
Time that never runs backwards.

A session's clock gives seconds since the epoch, so that recorded times and live ones are on one
line; within a process it advances with the monotonic clock, so that nobody who sets the wall clock
can open a rate limit. What a clock says is clamped: a reading earlier than the last one counts as
the last one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Clock = Callable[[], float]


def steady_clock() -> Clock:
    """Make a clock that starts at the wall clock's time and advances with the monotonic one."""
    offset = time.time() - time.monotonic()
    monotonic = time.monotonic
    return lambda: offset + monotonic()


class SetClock:
    """Show the time that it was set to last, where recorded calls are judged."""

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class MonotoneClock:
    """
    Clamp one clock, so that time never goes back to before the latest that it showed.

    `look` runs the clock, which is somebody else's code, and is called without a lock. `advance` takes
    what it gave and is called with one.

    Attributes:
        now: The latest time, in seconds.
        fault: Why the time is not known, if it is not.
    """

    __slots__ = ("_clock", "fault", "now")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.now = -math.inf
        self.fault: str | None = None

    def look(self) -> float | str:
        """Read the clock, or say why it shows nothing."""
        try:
            shown = self._clock()
            if type(shown) is float and shown - shown == 0:
                return shown
            if isinstance(shown, bool) or not math.isfinite(shown):
                return "the clock gave no finite number"
            return float(shown)
        except Exception as error:  # noqa: BLE001 - fail-closed: time that cannot be told is a fault
            return f"the clock raised {type(error).__name__}"

    def advance(self, shown: float | str) -> None:
        """Go on to the time that `look` gave, unless it is later already."""
        if isinstance(shown, str):
            self.fault = shown
            return
        self.fault = None
        if shown > self.now:
            self.now = shown


class SeveralClocks:
    """
    Stand for several clocks, which are read together.

    Attributes:
        each: The clocks.
    """

    __slots__ = ("each",)

    def __init__(self, clocks: Iterable[MonotoneClock]) -> None:
        self.each = tuple(clocks)

    def look(self) -> list[float | str]:
        """Read each of them."""
        return [clock.look() for clock in self.each]

    def advance(self, shown: list[float | str] | float | str) -> None:
        """Let each go on to what it showed; all to one time, where that stands in for them."""
        moments = shown if isinstance(shown, list) else [shown] * len(self.each)
        for clock, moment in zip(self.each, moments, strict=True):
            clock.advance(moment)


Timeline: TypeAlias = MonotoneClock | SeveralClocks | None
"""What is read to judge something: one clock, several, or none."""


def together(timelines: Iterable[Timeline]) -> Timeline:
    """Give what reads all of these, each clock once."""
    clocks = dict.fromkeys(clock for timeline in timelines for clock in _each(timeline))
    return SeveralClocks(clocks) if len(clocks) > 1 else next(iter(clocks), None)


def covers(timeline: Timeline, part: Timeline) -> bool:
    """Tell whether who has read the one has read the other."""
    return set(_each(part)) <= set(_each(timeline))


def _each(timeline: Timeline) -> tuple[MonotoneClock, ...]:
    if timeline is None:
        return ()
    return timeline.each if isinstance(timeline, SeveralClocks) else (timeline,)


def look(timeline: Timeline, at: float | None) -> Any:
    """Read clocks, which are other people's code, before the lock is taken; `at` stands in for all."""
    return None if timeline is None else timeline.look() if at is None else at


def advance(timeline: Timeline, shown: Any) -> None:
    """Let the time of a session go on to what its clocks showed. The lock is held."""
    if timeline is not None:
        timeline.advance(shown)
