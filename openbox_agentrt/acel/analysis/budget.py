"""Bound a search: a number of states and a time, whichever ends first."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ("Budget", "processor_clock")

# So many times as long as it may compute, a search takes at most where the machine does other work.
_MOST_WAITED = 5.0
# The clock of a processor takes long to read.
_READ_EVERY = 0.01


class Budget:
    """
    Count down what may be spent on a search.

    Args:
        seconds: The time.
        states: How many states of sessions.
        clock: The time that is spent; by default as `processor_clock` counts it.
    """

    def __init__(self, seconds: float, states: int, *, clock: Callable[[], float] | None = None) -> None:
        self._clock = processor_clock() if clock is None else clock
        self._end = self._clock() + seconds
        self._states = states

    def take(self) -> bool:
        """Take one state; False if there is none left."""
        self._states -= 1
        return self._states >= 0 and self._clock() < self._end

    def part(self, parts: int) -> Budget:
        """Give one of so many equal parts of what is left."""
        now = self._clock()
        seconds = max(0.0, self._end - now) / max(1, parts)
        return Budget(seconds, max(1, self._states // max(1, parts)), clock=self._clock)

    def at_most(self, states: int) -> Budget:
        """Give what is left, with no more than so many states."""
        return Budget(max(0.0, self._end - self._clock()), min(states, self._states), clock=self._clock)

    @property
    def late(self) -> bool:
        """True if no time is left."""
        return self._clock() >= self._end

    @property
    def spent(self) -> bool:
        """True if nothing is left."""
        return self._states <= 0 or self._clock() >= self._end


def processor_clock() -> Callable[[], float]:
    """
    Give a clock that counts the processor time of this thread, so that a busy machine finds as much.

    A part of the time that passes counts in its place once that is more: a search ends all the same where
    the processor is hardly ever free.
    """
    began, computed_before = time.monotonic(), time.thread_time()
    read, computed = began, 0.0

    def spent() -> float:
        nonlocal read, computed
        now = time.monotonic()
        if now - read >= _READ_EVERY:
            read, computed = now, time.thread_time() - computed_before
        return max(computed, (now - began) / _MOST_WAITED)

    return spent
