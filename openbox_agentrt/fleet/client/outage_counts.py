"""
Counting in this process while the store is away, for whoever asked for that.

It begins with nothing: what other workers did is not known here, so a limit holds per process. What was let
through is put into the store by force when it answers again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from ..answers import Finished, Lease, Reserved
from ..judge.in_memory import MemoryLine, MemoryTables
from ..periods import SECOND
from ..plan import FleetPlan
from ..steps import Beat, Finish, Reserve
from ..wire import wire
from .recent_leases import RecentLease
from .requests import ToFinish

_WORKER = "local"
_FOREVER = 10**6 * SECOND


class LocalCounts:
    """
    Judge and settle calls here.

    Args:
        store_time: The time in microseconds.
    """

    def __init__(self, store_time: Callable[[], int]) -> None:
        self._store_time = store_time
        self._lock = threading.Lock()
        self._entries: dict[str, RecentLease] = {}
        # Filled without a lock, since a finalizer may do so.
        self._ends: deque[ToFinish] = deque()
        self._numbers = count(1)
        self._clear()

    def left(self) -> bool:
        """Tell whether something was counted here that the store does not know."""
        return bool(self._entries)

    def reserve(
        self, plan: FleetPlan, prefix: str, *, started: bool, force: bool, dry: bool = False
    ) -> Reserved:
        """Judge a plan by what was counted here. `prefix` makes the lease's id one of its own."""
        with self._lock:
            self._settle(self._entries)
            sent, guards = wire(plan, self._store_time())
            lease = f"{prefix}.local{next(self._numbers)}"
            step = Reserve(
                lease=lease, worker=_WORKER, plan=sent, guards=guards, started=started, force=force, dry=dry
            )
            answer = self._line.run([step])[0]
            if answer.said != "ok" or dry:
                return Reserved(lease=None, broken=answer.broken, now=answer.now)
            self._entries[lease] = RecentLease(lease, _WORKER, sent, started)
            cells = tuple(cell.id for cell in sent.c)
            granted = Lease(id=lease, worker=_WORKER, cells=cells, local=True)
            return Reserved(lease=granted, broken=answer.broken, now=answer.now)

    def start(self, lease: str) -> bool:
        """Note that a call begins, if it still is counted here."""
        entry = self._entries.get(lease)
        if entry is not None:
            entry.started = True
        return entry is not None

    def tell(self, end: ToFinish) -> bool:
        """Note how a call ended, if it still is counted here."""
        if end.lease.id not in self._entries:
            return False
        self._ends.append(end)
        # Given away meanwhile, and perhaps without this end.
        return end.lease.id in self._entries or not self._claim(end)

    def take(self) -> list[RecentLease]:
        """Give away what was counted here, for the store. What is open goes on there."""
        with self._lock:
            given, self._entries = self._entries, {}
            # INVARIANT: after they are given away, so that no end is put into the queue and found by nobody.
            self._settle(given)
            self._clear()
            return [entry for entry in given.values() if entry.how != "undo"]

    def _clear(self) -> None:
        self._line = MemoryLine(MemoryTables(), clock=self._store_time)
        self._line.run([Beat(worker=_WORKER, lease_us=_FOREVER, join=True)])

    def _claim(self, end: ToFinish) -> bool:
        """Take an end out of the queue. Of two threads that do, one has it."""
        with suppress(ValueError):
            self._ends.remove(end)
            return True
        return False

    def _settle(self, entries: dict[str, RecentLease]) -> None:
        for end in list(self._ends):
            entry = entries.get(end.lease.id)
            # What was given away before it came is found by whoever told it.
            if entry is None or not self._claim(end) or entry.how is not None:
                continue
            entry.how, entry.measured = end.how, end.measured
            step = Finish(
                lease=end.lease.id,
                worker=_WORKER,
                how=end.how,
                cells=end.lease.cells,
                measured=end.measured,
            )
            answer = self._line.run([step])[0]
            if end.future.set_running_or_notify_cancel():
                end.future.set_result(Finished(said="ok", over=answer.over))
