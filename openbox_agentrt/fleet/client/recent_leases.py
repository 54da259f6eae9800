"""
Keep what a worker did lately, to repeat it to a store that has lost it.

A store that was emptied, or whose replica took over without the last writes, gets the leases of the last
seconds and all open ones again, by force and under the same ids. What it still knows by id changes nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..answers import How, Measured
from ..steps import Finish, Reserve, Step
from ..wire import WirePlan

KEPT_SECONDS = 30.0


@dataclass(slots=True)
class RecentLease:
    """A lease as its worker knows it. `taken`: it was adopted here, and not parked since."""

    lease: str
    worker: str
    plan: WirePlan
    started: bool
    how: How | None = None
    measured: Measured | None = None
    ended: float = 0.0
    taken: bool = False


class RecentLeases:
    """
    Keep the leases that are open, and those that ended within the last seconds.

    Attributes:
        untold: Those of them that the store does not know yet.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._entries: dict[str, RecentLease] = {}
        self._ended: deque[RecentLease] = deque()
        self.untold: list[RecentLease] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[RecentLease]:
        return iter(list(self._entries.values()))

    def get(self, lease: str) -> RecentLease | None:
        """Find a lease by its id."""
        return self._entries.get(lease)

    def add(self, entry: RecentLease) -> None:
        """Keep a lease that was granted."""
        self._entries[entry.lease] = entry
        if entry.how is not None:
            self._end(entry)

    def add_untold(self, entry: RecentLease) -> None:
        """Keep a lease that the store has not granted, and is still to be told of."""
        self.add(entry)
        self.untold.append(entry)

    def finish(self, lease: str, how: How, measured: Measured | None) -> None:
        """Note how a lease ended, and forget those that ended long ago."""
        entry = self._entries.get(lease)
        if entry is None:
            return
        entry.how, entry.measured = how, measured
        self._end(entry)

    def drop(self, lease: str) -> None:
        """Forget a lease that is over."""
        self._entries.pop(lease, None)

    def _end(self, entry: RecentLease) -> None:
        now = self._monotonic()
        entry.ended = now
        self._ended.append(entry)
        while self._ended and now - self._ended[0].ended >= KEPT_SECONDS:
            over = self._ended.popleft()
            if now - over.ended >= KEPT_SECONDS:
                self._entries.pop(over.lease, None)


def steps_again(entry: RecentLease, worker: str) -> list[Step]:
    """Give the steps that make a store know a lease again, whatever it knows of it."""
    steps: list[Step] = [
        Reserve(
            lease=entry.lease,
            worker=worker,
            plan=entry.plan,
            guards=(),
            started=entry.started or entry.how is not None,
            force=True,
        )
    ]
    if entry.how is not None:
        cells = tuple(cell.id for cell in entry.plan.c)
        steps.append(
            Finish(lease=entry.lease, worker=worker, how=entry.how, cells=cells, measured=entry.measured)
        )
    return steps
