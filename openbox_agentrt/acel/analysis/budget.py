"""How long is searched: a number of states and a time, whichever ends first."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ("Budget",)


class Budget:
    """
    Count down what may be spent on a search.

    Args:
        seconds: The time.
        states: How many states of sessions.
        clock: The time that passes.
    """

    def __init__(self, seconds: float, states: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
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
