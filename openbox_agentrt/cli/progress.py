"""Signs of life, for input that takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_LOOK_EVERY = 1000


class Progress:
    """
    Counts, and says on standard error how far it is: first after two seconds, then every two.

    Args:
        what: What is counted, e.g. "events".
        clock: The time.
    """

    def __init__(self, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self._what = what
        self._clock = clock
        self._next = clock() + _SECONDS

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """The items, counted as they pass."""
        for item in items:
            self.count += 1
            if self.count % _LOOK_EVERY == 0:
                self.look()
            yield item

    def look(self) -> None:
        """Say how far it is, if it is time."""
        now = self._clock()
        if now >= self._next:
            self._next = now + _SECONDS
            print(f"{self.count} {self._what} ...", file=sys.stderr, flush=True)


_SECONDS = 2.0
