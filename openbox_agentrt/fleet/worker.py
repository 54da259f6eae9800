"""One process as a worker of a store: its threads, and waiting for the answers to what it asks."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal

from .answers import How, Lease, Reserved
from .client.dispatcher import Dispatcher
from .client.heartbeat import Heartbeat
from .client.membership import Membership
from .client.outage_counts import LocalCounts
from .client.requests import AwaitedAnswer, Question, ToReserve
from .client.sessions import HeldSession
from .errors import FleetConfigError, FleetUnavailableError
from .halts import HaltRows, HaltWatch
from .steps import StoreLine

OnOutage = Literal["refuse", "local"]

_CONNECTING = 5.0
"""Seconds that the first calls of a process wait besides, until it has tried to connect."""

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

    def __init__(self, fleet: FleetWorker) -> None:
        self.process = os.getpid()
        self.membership = Membership(fleet.lease_seconds)
        self.local = LocalCounts(self.membership.store_time)
        self.dispatcher = Dispatcher(fleet._connect, self.membership, self.local)
        self.heartbeat = Heartbeat(fleet._connect, self.membership, self.dispatcher.wake)
        self.dispatcher.thread.start()
        self.heartbeat.thread.start()

    def close(self) -> None:
        self.heartbeat.stop()
        self.dispatcher.close()
        self.dispatcher.thread.join(timeout=2.0)
        self.heartbeat.thread.join(timeout=1.0)


class FleetWorker(ABC):
    """
    Ask a store for this process, from threads of its own, and wait no longer than a call may.

    A process that was forked becomes a worker of its own at its first call.
    """

    def __init__(self, *, lease_seconds: float, on_outage: OnOutage, timeout_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self.on_outage = on_outage
        self.timeout_seconds = timeout_seconds
        self._running: _Worker | None = None
        self._closed = False
        self.halts = HaltWatch(self._halt_rows, self._answers_again)

    @abstractmethod
    def finish(self, lease: Lease, how: How) -> object:
        """Say how a call ended."""

    @abstractmethod
    def close(self) -> None:
        """End the worker of this process."""

    @abstractmethod
    def _connect(self) -> StoreLine:
        """Make a connection that connects when it is first used."""

    @abstractmethod
    def _halt_rows(self) -> HaltRows:
        """Open the halts of the store, over a connection that connects when it is first used."""

    def _answers_again(self) -> None:
        running = self._running
        if running is not None and running.process == os.getpid():
            running.dispatcher.expect_answer()

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
            raise closed_error()
        if inherited is not None:
            _inherited.append(inherited)
        self._running = begun = _Worker(self)
        self.halts.begin()
        atexit.register(_close, weakref.ref(self))
        return begun

    def has(self, worker: str) -> bool:
        """Tell whether a name of a worker is this one's, and its lease is not over by its own clocks."""
        running = self._running
        if not worker or running is None or running.process != os.getpid():
            return False
        return running.membership.worker.id == worker and not running.membership.outlived()

    def deadline(self) -> float:
        """Say until when a question that is asked now waits."""
        return time.monotonic() + self.timeout_seconds

    def put(self, request: Question) -> None:
        """Ask, and let somebody else wait for the answer."""
        self._worker().dispatcher.ask(request)

    def wait_for(self, answer: Future[bool]) -> bool:
        """Wait for what was asked before, for as long as a question waits. False where a parent has asked."""
        if _is_of_parent(answer):
            return False
        if answer.done():
            return answer.result()
        try:
            return answer.result(self.timeout_seconds)
        except TimeoutError:
            raise self._no_answer() from None

    async def await_for(self, answer: Future[bool]) -> bool:
        """Do as `wait_for`, and let the event loop go on."""
        if _is_of_parent(answer):
            return False
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
        self._worker().membership.counts.outages += 1
        return FleetUnavailableError("no answer in time", retry_after=1.0)

    def ask(self, request: Question) -> Any:
        """Ask, and wait for the answer."""
        dispatcher, began = self._worker().dispatcher, time.monotonic()
        if not dispatcher.tried.is_set():
            dispatcher.tried.wait(_CONNECTING)
            request.deadline += time.monotonic() - began
        dispatcher.ask(request)
        try:
            return request.future.result(max(0.0, request.deadline - time.monotonic()))
        except TimeoutError:
            return self._give_up(request)

    async def aask(self, request: Question) -> Any:
        """Do as `ask`, and let the event loop go on."""
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


def closed_error() -> FleetConfigError:
    """Give the error of whoever uses a fleet that was closed."""
    return FleetConfigError("the fleet is closed: make another one")


def _is_of_parent(answer: Future[bool]) -> bool:
    # Not even whether it is done may be asked: its lock may be held by a thread that a fork does not have.
    return isinstance(answer, AwaitedAnswer) and answer.process != os.getpid()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _close(fleet: weakref.ref[FleetWorker]) -> None:
    alive = fleet()
    if alive is not None:
        alive.close()
