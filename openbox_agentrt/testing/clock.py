"""Time that passes only when a test says so."""

from __future__ import annotations

import asyncio
import threading
import time as _time


class ManualClock:
    """
    Keep a clock that stands still until it is advanced.

    `sleep` returns at once and advances the clock by the time asked for, so code that waits for
    minutes is tested in microseconds. It still yields to the event loop, as a real sleep does.

    Args:
        now: Where the wall clock starts, in seconds since 1970; ``None`` takes the time of the machine.

    Attributes:
        sleeps: Every time asked of `sleep`, in order.
    """

    def __init__(self, now: float | None = None) -> None:
        self._started = _time.time() if now is None else now
        self._elapsed = 0.0
        self._lock = threading.Lock()
        self.sleeps: list[float] = []

    def monotonic(self) -> float:
        """Tell the seconds that have passed on this clock; in place of ``time.monotonic``."""
        return self._elapsed

    def time(self) -> float:
        """Tell the time of day of this clock; in place of ``time.time``."""
        return self._started + self._elapsed

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on this clock."""
        if not seconds >= 0:
            raise ValueError(f"time passes forward only, not by {seconds!r} seconds")
        with self._lock:
            self._elapsed += seconds

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass without waiting; in place of ``asyncio.sleep``."""
        self.sleeps.append(seconds)
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)
