"""The store that many processes share, as one of its workers sees it."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal

from .answers import Finished, FleetCounts, How, Lease, Measured, Reserved
from .client.dispatcher import Dispatcher
from .client.heartbeat import Heartbeat
from .client.local import LocalCounts
from .client.requests import ForLease, Question, ToFinish, ToReserve
from .client.sessions import HeldSession, Memory, check_idle, name_of
from .client.standing import WorkerStanding
from .errors import FleetConfigError, FleetUnavailableError
from .halts import HaltRows, HaltWatch
from .periods import SECOND
from .plan import FleetPlan
from .sessions import SharedSession
from .steps import StoreLine

__all__ = ("PATIENCE", "Fleet", "OnOutage")

OnOutage = Literal["refuse", "local"]

PATIENCE = 0.25
"""Seconds that a call waits for the store."""

_CONNECTING = 5.0
"""Seconds that the first calls of a process wait besides, until it has tried to connect."""

_log = logging.getLogger("openbox_agentrt.fleet")

# What a forked process inherited. Closing it would end the parent's connections, so nothing may collect it.
_inherited: list[object] = []

# Reentrant for the sake of finalizers, and not held by a thread that a fork does not have.
_beginning = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_beginning.acquire, after_in_parent=_beginning.release, after_in_child=_beginning.release
    )


class _Worker:
    """The threads and counts of one process."""

    def __init__(self, fleet: Fleet) -> None:
        self.process = os.getpid()
        self.standing = WorkerStanding(fleet.lease_seconds)
        self.local = LocalCounts(self.standing.store_time)
        self.dispatcher = Dispatcher(fleet._connect, self.standing, self.local)
        self.heartbeat = Heartbeat(fleet._connect, self.standing, self.dispatcher.wake)
        self.dispatcher.thread.start()
        self.heartbeat.thread.start()

    def close(self) -> None:
        self.heartbeat.stop()
        self.dispatcher.close()
        self.dispatcher.thread.join(timeout=2.0)
        self.heartbeat.thread.join(timeout=1.0)


class Fleet(ABC):
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
        self.lease_seconds = lease_seconds
        self.timeout_seconds = timeout_seconds
        self.on_outage = on_outage
        self._running: _Worker | None = None
        self._closed = False
        self._last_counts = FleetCounts()
        self.halts = HaltWatch(self._halt_rows)

    @property
    @abstractmethod
    def url(self) -> str:
        """The store's address, without a password."""

    @property
    def worker(self) -> str:
        """The name under which this process holds its leases now."""
        return self._worker().standing.worker.id

    @property
    def counts(self) -> FleetCounts:
        """Counts of what happened so far, in this process."""
        running = self._running
        return self._last_counts if running is None else running.standing.counts.snapshot()

    def prepare(self) -> None:
        """
        Begin to connect, so that the first call finds a connection. Does not wait.

        Raises:
            FleetConfigError: The fleet is closed.
        """
        self._worker()

    def reserve(
        self, plan: FleetPlan, *, started: bool = False, force: bool = False, timeout: float | None = None
    ) -> Reserved:
        """
        Judge a call and reserve what it takes, in one step. The calling thread waits.

        Args:
            plan: What the call asks.
            started: The call begins at once: no `start` follows.
            force: It is let through whatever is broken: it is only watched, or ran already.
            timeout: Seconds to wait for the store, if not as long as usual.

        Returns:
            The lease, or what would be broken. A lease has to be finished, whatever happens.

        Raises:
            FleetUnavailableError: No answer in time, and `on_outage` is `refuse`. Nothing stays reserved.
            FleetConfigError: The store cannot be used as it is configured.
        """
        request = ToReserve(self._until(timeout), plan=plan, started=started, force=force)
        try:
            answer: Reserved = self._wait(request)
        except FleetUnavailableError:
            if self.on_outage == "refuse":
                raise
            return self._count_here(plan, started=started, force=force)
        return answer

    async def areserve(
        self, plan: FleetPlan, *, started: bool = False, force: bool = False, timeout: float | None = None
    ) -> Reserved:
        """Do as `reserve`, and let the event loop go on."""
        request = ToReserve(self._until(timeout), plan=plan, started=started, force=force)
        try:
            answer: Reserved = await self._await(request)
        except FleetUnavailableError:
            if self.on_outage == "refuse":
                raise
            return self._count_here(plan, started=started, force=force)
        return answer

    def would(self, plan: FleetPlan, *, timeout: float | None = None) -> Reserved:
        """
        Judge a call that is not made: nothing is reserved or counted. The calling thread waits.

        Returns:
            What would be broken, without a lease. Others may come before the call is made.

        Raises:
            FleetUnavailableError: See `reserve`.
            FleetConfigError: See `reserve`.
        """
        try:
            answer: Reserved = self._wait(ToReserve(self._until(timeout), plan=plan, dry=True))
        except FleetUnavailableError:
            if self.on_outage == "refuse":
                raise
            worker = self._worker()
            return worker.local.reserve(plan, worker.standing.worker.id, started=False, force=False, dry=True)
        return answer

    def start(self, lease: Lease, *, timeout: float | None = None) -> bool:
        """
        Say that a reserved call begins now. The calling thread waits.

        Returns:
            Whether it may. False: it was given back meanwhile, since this worker's lease was over.

        Raises:
            FleetUnavailableError: No answer in time. The call must not run.
        """
        if lease.local and self._worker().local.start(lease.id):
            return True
        return bool(self._wait(self._for_lease("start", lease, timeout)))

    async def astart(self, lease: Lease, *, timeout: float | None = None) -> bool:
        """Do as `start`, and let the event loop go on."""
        if lease.local and self._worker().local.start(lease.id):
            return True
        return bool(await self._await(self._for_lease("start", lease, timeout)))

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
            end.future.set_exception(_closed())
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

    def park(self, lease: Lease, seconds: float, *, note: str = "", timeout: float | None = None) -> bool:
        """
        Keep a reserved lease until a deadline of its own, whatever becomes of this process.

        Args:
            lease: The lease.
            seconds: How long.
            note: What whoever adopts it is told, as `Lease.note`.
            timeout: Seconds to wait for the store, if not as long as usual.

        Returns:
            Whether it is kept. False: it was given back meanwhile.

        Raises:
            FleetUnavailableError: No answer in time.
        """
        return bool(self._wait(self._for_lease("park", lease, timeout, seconds, note)))

    async def apark(
        self, lease: Lease, seconds: float, *, note: str = "", timeout: float | None = None
    ) -> bool:
        """Do as `park`, and let the event loop go on."""
        return bool(await self._await(self._for_lease("park", lease, timeout, seconds, note)))

    def adopt(self, lease_id: str, *, timeout: float | None = None) -> Lease | None:
        """
        Take a parked lease for this worker.

        Returns:
            The lease; None if it was taken before, or its deadline is over.

        Raises:
            FleetUnavailableError: No answer in time.
        """
        request = ForLease(self._until(timeout), step="adopt", lease=lease_id)
        answer: Lease | None = self._wait(request)
        return answer

    async def aadopt(self, lease_id: str, *, timeout: float | None = None) -> Lease | None:
        """Do as `adopt`, and let the event loop go on."""
        request = ForLease(self._until(timeout), step="adopt", lease=lease_id)
        answer: Lease | None = await self._await(request)
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
        record = HeldSession(name_of(session_id), check_idle(idle_seconds), memory)
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

    @abstractmethod
    def _connect(self) -> StoreLine:
        """Make a connection that connects when it is first used."""

    @abstractmethod
    def _halt_rows(self) -> HaltRows:
        """Open the halts of the store, over a connection that connects when it is first used."""

    def _worker(self) -> _Worker:
        running = self._running
        if running is not None and running.process == os.getpid():
            return running
        # Threads whose first calls come at once are one worker: of two, one would never end.
        with _beginning:
            if self._running is running:
                return self._begin(running)
        return self._worker()

    def _begin(self, inherited: _Worker | None) -> _Worker:
        if self._closed:
            raise _closed()
        if inherited is not None:
            _inherited.append(inherited)
        self._running = begun = _Worker(self)
        self.halts.begin()
        atexit.register(_close, weakref.ref(self))
        return begun

    # What `SharedSession` asks by.

    def has(self, worker: str) -> bool:
        """Tell whether a name of a worker is this one's, and its lease is not over by its own clocks."""
        running = self._running
        if not worker or running is None or running.process != os.getpid():
            return False
        return running.standing.worker.id == worker and not running.standing.outlived()

    def deadline(self) -> float:
        """Say until when a question that is asked now waits."""
        return self._until(None)

    def put(self, request: Question) -> None:
        """Ask, and let somebody else wait for the answer."""
        self._worker().dispatcher.ask(request)

    def ask(self, request: Question) -> Any:
        """Ask, and wait for the answer."""
        return self._wait(request)

    async def aask(self, request: Question) -> Any:
        """Do as `ask`, and let the event loop go on."""
        return await self._await(request)

    def wait_for(self, answer: Future[bool]) -> bool:
        """Wait for what was asked before, for as long as a question waits."""
        if answer.done():
            return answer.result()
        try:
            return answer.result(self.timeout_seconds)
        except TimeoutError:
            raise self._no_answer() from None

    async def await_for(self, answer: Future[bool]) -> bool:
        """Do as `wait_for`, and let the event loop go on."""
        if answer.done():
            return answer.result()
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            raise self._no_answer() from None

    def write_soon(self, session: HeldSession, *, soon: bool = True) -> None:
        """Have a session written for which nobody waits. Takes no lock, so a finalizer may call it."""
        if not self._closed:
            self._worker().dispatcher.write(session, soon=soon)

    def _no_answer(self) -> FleetUnavailableError:
        self._worker().standing.counts.outages += 1
        return FleetUnavailableError("no answer in time", retry_after=1.0)

    def _until(self, timeout: float | None) -> float:
        return time.monotonic() + (self.timeout_seconds if timeout is None else timeout)

    def _for_lease(
        self,
        step: Literal["start", "park"],
        lease: Lease,
        timeout: float | None,
        seconds: float = 0,
        note: str = "",
    ) -> ForLease:
        return ForLease(
            self._until(timeout),
            step=step,
            lease=lease.id,
            worker=lease.worker,
            for_us=int(seconds * SECOND),
            note=note,
        )

    def _wait(self, request: Question) -> Any:
        dispatcher, began = self._worker().dispatcher, time.monotonic()
        if not dispatcher.tried.is_set():
            dispatcher.tried.wait(_CONNECTING)
            request.deadline += time.monotonic() - began
        dispatcher.ask(request)
        try:
            return request.future.result(max(0.0, request.deadline - time.monotonic()))
        except TimeoutError:
            return self._give_up(request)

    async def _await(self, request: Question) -> Any:
        dispatcher, began = self._worker().dispatcher, time.monotonic()
        if not dispatcher.tried.is_set():
            await asyncio.to_thread(dispatcher.tried.wait, _CONNECTING)
            request.deadline += time.monotonic() - began
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()

        def told(_: Future[Any]) -> None:
            # A loop that was closed has nobody who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, waiter)

        request.future.add_done_callback(told)
        dispatcher.ask(request)
        try:
            async with asyncio.timeout(request.deadline - time.monotonic()):
                await waiter
            return request.future.result()
        except TimeoutError:
            return self._give_up(request)
        except asyncio.CancelledError:
            self._abandon(request)
            raise

    def _give_up(self, request: Question) -> Any:
        if not request.future.done():
            self._abandon(request)
            raise self._no_answer()
        return request.future.result()

    def _abandon(self, request: Question) -> None:
        # Nobody takes the answer any more: what was granted is given back.
        if not request.future.cancel() and isinstance(request, ToReserve):
            request.future.add_done_callback(self._undo)

    def _undo(self, future: Future[Any]) -> None:
        answer = None if future.exception() else future.result()
        if isinstance(answer, Reserved) and answer.lease is not None:
            self.finish(answer.lease, "undo")

    def _count_here(self, plan: FleetPlan, *, started: bool, force: bool) -> Reserved:
        worker = self._worker()
        worker.standing.counts.local += 1
        return worker.local.reserve(plan, worker.standing.worker.id, started=started, force=force)


def _closed() -> FleetConfigError:
    return FleetConfigError("the fleet is closed: make another one")


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _close(fleet: weakref.ref[Fleet]) -> None:
    alive = fleet()
    if alive is not None:
        alive.close()
