"""The store that many processes share, as one of its workers sees it."""

from __future__ import annotations

import asyncio
import logging
import os
from abc import abstractmethod
from concurrent.futures import Future
from typing import Literal
from weakref import WeakValueDictionary

from .answers import Finished, FleetCounts, How, Lease, Measured, Reserved
from .client.requests import ForLease, ToFinish, ToReserve
from .client.sessions import HeldSession, Memory, check_idle, name_of
from .errors import FleetConfigError, FleetUnavailableError
from .periods import SECOND
from .plan import FleetPlan
from .sessions import SharedSession
from .worker import FleetWorker, OnOutage, closed_error

PATIENCE = 0.25
"""Seconds that a call waits for the store."""

_log = logging.getLogger("openbox_agentrt.fleet")


class Fleet(FleetWorker):
    """
    Reserve, start and finish calls in a store that many processes share.

    It connects at first use, or when `prepare` is called before. Every method can be called from any thread,
    and none but those that say so waits: what is asked goes to the store from a thread of its own. A process
    that was forked becomes a worker of its own at its first call.

    Args:
        lease_seconds: So long after its last sign of life a worker counts as dead, and what it had reserved
            and not started is free again.
        on_outage: What a call meets while the store does not answer: `refuse`, or `local`: it is counted in
            this process only, and told to the store later.
        timeout_seconds: So long a call waits for the store. The first calls of a process wait until it has
            tried to connect besides.

    Attributes:
        halts: What people have halted, in every process with this store.

    Raises:
        FleetConfigError: An argument makes no sense.
    """

    def __init__(
        self,
        *,
        lease_seconds: float = 30,
        on_outage: OnOutage = "refuse",
        timeout_seconds: float = PATIENCE,
    ) -> None:
        if not 0.1 <= lease_seconds <= 3600:
            raise FleetConfigError(f"lease_seconds is {lease_seconds!r}: write a number from 0.1 to 3600")
        if on_outage not in ("refuse", "local"):
            raise FleetConfigError(f"on_outage is {on_outage!r}: write 'refuse' or 'local'")
        if not 0.001 <= timeout_seconds <= 60:
            raise FleetConfigError(f"timeout_seconds is {timeout_seconds!r}: write a number from 0.001 to 60")
        super().__init__(lease_seconds=lease_seconds, on_outage=on_outage, timeout_seconds=timeout_seconds)
        self._last_counts = FleetCounts()
        self._sessions: WeakValueDictionary[str, HeldSession] = WeakValueDictionary()

    @property
    @abstractmethod
    def url(self) -> str:
        """The store's address, without a password."""

    @property
    def worker(self) -> str:
        """The name under which this process holds its leases now."""
        return self._worker().membership.worker.id

    @property
    def counts(self) -> FleetCounts:
        """Counts of what happened so far, in this process."""
        running = self._running
        return self._last_counts if running is None else running.membership.counts.snapshot()

    def prepare(self) -> None:
        """
        Begin to connect, so that the first call finds a connection. Does not wait.

        Raises:
            FleetConfigError: The fleet is closed.
        """
        self._worker()

    def reserve(self, plan: FleetPlan, *, started: bool = False, force: bool = False) -> Reserved:
        """
        Judge a call and reserve what it takes, in one step. The calling thread waits.

        Args:
            plan: What the call asks.
            started: The call begins at once: no `start` follows.
            force: It is let through whatever is broken: it is only watched, or ran already.

        Returns:
            The lease, or what would be broken. A lease has to be finished, whatever happens.

        Raises:
            FleetUnavailableError: No answer in time, and `on_outage` is `refuse`. Nothing stays reserved.
            FleetConfigError: The store cannot be used as it is configured.
        """
        request = ToReserve(self.deadline(), plan=plan, started=started, force=force)
        try:
            answer: Reserved = self.ask(request)
        except FleetUnavailableError as error:
            return self._count_here(error, plan, started=started, force=force)
        return answer

    async def areserve(self, plan: FleetPlan, *, started: bool = False, force: bool = False) -> Reserved:
        """Do as `reserve`, and let the event loop go on."""
        request = ToReserve(self.deadline(), plan=plan, started=started, force=force)
        try:
            answer: Reserved = await self.aask(request)
        except FleetUnavailableError as error:
            return self._count_here(error, plan, started=started, force=force)
        return answer

    def would(self, plan: FleetPlan) -> Reserved:
        """
        Judge a call that is not made: nothing is reserved or counted. The calling thread waits.

        Returns:
            What would be broken, without a lease. Others may come before the call is made.

        Raises:
            FleetUnavailableError: See `reserve`.
            FleetConfigError: See `reserve`.
        """
        try:
            answer: Reserved = self.ask(ToReserve(self.deadline(), plan=plan, dry=True))
        except FleetUnavailableError as error:
            return self._count_here(error, plan, dry=True)
        return answer

    def start(self, lease: Lease) -> bool:
        """
        Say that a reserved call begins now. The calling thread waits.

        Returns:
            Whether it may. False: it was given back meanwhile, since this worker's lease was over.

        Raises:
            FleetUnavailableError: No answer in time. The call must not run.
        """
        if lease.local and self._worker().local.start(lease.id):
            return True
        return bool(self.ask(self._for_lease("start", lease)))

    async def astart(self, lease: Lease) -> bool:
        """Do as `start`, and let the event loop go on."""
        if lease.local and self._worker().local.start(lease.id):
            return True
        return bool(await self.aask(self._for_lease("start", lease)))

    def finish(
        self, lease: Lease, how: How, *, measured: Measured | None = None, soon: bool = True
    ) -> Future[Finished]:
        """
        Say how a call ended. Waits for nothing and takes no lock, so a finalizer may call it.

        It is told until the store has answered. What this worker asks later is judged after it.

        Args:
            lease: The call's.
            how: How it ended.
            measured: What was known only after the call.
            soon: Whether it may wait up to 50 ms for the next question, in whose trip it goes.

        Returns:
            The answer, when there is one.
        """
        end = ToFinish(lease, how, measured)
        if self._closed:
            # Not raised: a finalizer may come late, and has nobody to tell.
            end.future.set_exception(closed_error())
            return end.future
        worker = self._worker()
        if not (lease.local and worker.local.tell(end)):
            worker.dispatcher.tell(end, soon=soon)
        return end.future

    def record(self, plan: FleetPlan, how: How) -> None:
        """
        Count a call that ran and was not reserved, whatever it breaks. Waits for nothing.

        It is told until the store has taken it. What this worker asks later is judged after it.

        Args:
            plan: What the call would have asked.
            how: How it ended.
        """
        if self._closed:
            # Not raised, as in `finish`: the call ran, and whoever made it goes on.
            _log.warning("a call ended after its fleet was closed, and is not counted as it ran")
            return
        self._worker().dispatcher.record(plan, how)

    def park(self, lease: Lease, seconds: float, *, note: str = "") -> bool:
        """
        Keep a reserved lease until a deadline of its own, whatever becomes of this process.

        Args:
            lease: The lease.
            seconds: How long.
            note: What whoever adopts it is told, as `Lease.note`.

        Returns:
            Whether it is kept. False: it was given back meanwhile.

        Raises:
            FleetUnavailableError: No answer in time.
        """
        return bool(self.ask(self._for_lease("park", lease, seconds, note)))

    async def apark(self, lease: Lease, seconds: float, *, note: str = "") -> bool:
        """Do as `park`, and let the event loop go on."""
        return bool(await self.aask(self._for_lease("park", lease, seconds, note)))

    def adopt(self, lease_id: str) -> Lease | None:
        """
        Take a parked lease for this worker.

        Returns:
            The lease; None if it was taken before, or its deadline is over.

        Raises:
            FleetUnavailableError: No answer in time.
        """
        request = ForLease(self.deadline(), step="adopt", lease=lease_id)
        answer: Lease | None = self.ask(request)
        return answer

    async def aadopt(self, lease_id: str) -> Lease | None:
        """Do as `adopt`, and let the event loop go on."""
        request = ForLease(self.deadline(), step="adopt", lease=lease_id)
        answer: Lease | None = await self.aask(request)
        return answer

    def session(self, session_id: str, memory: Memory, *, idle_seconds: float = 86_400.0) -> SharedSession:
        """
        Keep the memory of a session in the store, for one worker at a time.

        Args:
            session_id: Its name: what others call the same session.
            memory: Its memory in this process.
            idle_seconds: So long it lasts when nobody uses it.

        Raises:
            FleetConfigError: `idle_seconds` is no time.
        """
        name, idle = name_of(session_id), check_idle(idle_seconds)
        record = HeldSession(name, idle, memory, holders=self._sessions)
        return SharedSession(self, record)

    def close(self) -> None:
        """Tell the store what is left to tell, for at most two seconds, and let go of it."""
        self._last_counts = self.counts
        worker, self._running = self._running, None
        self._closed = True
        self.halts.close()
        if worker is not None and worker.process == os.getpid():
            worker.close()

    async def aclose(self) -> None:
        """Do as `close`, and let the event loop go on."""
        await asyncio.to_thread(self.close)

    def _for_lease(
        self,
        step: Literal["start", "park"],
        lease: Lease,
        seconds: float = 0,
        note: str = "",
    ) -> ForLease:
        return ForLease(
            self.deadline(),
            step=step,
            lease=lease.id,
            worker=lease.worker,
            for_us=int(seconds * SECOND),
            note=note,
        )

    def _count_here(
        self,
        error: FleetUnavailableError,
        plan: FleetPlan,
        *,
        started: bool = False,
        force: bool = False,
        dry: bool = False,
    ) -> Reserved:
        if self.on_outage == "refuse":
            raise error
        worker = self._worker()
        worker.membership.counts.local += not dry
        return worker.local.reserve(plan, worker.membership.worker.id, started=started, force=force, dry=dry)
