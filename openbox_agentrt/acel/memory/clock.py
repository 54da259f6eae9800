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
from collections.abc import Callable

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
