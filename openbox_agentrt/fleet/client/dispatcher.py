"""
One thread that carries everything a worker asks to the store, in order and over one connection.

Callers put requests into a queue and wait, an event loop like any thread, so a store that hangs holds up this
thread and nobody else. Whatever is in the queue goes in one trip. How calls ended is not waited for: it goes
ahead of the next question, or by itself within 50 ms, so a worker finds its own successes.

A question without an answer is refused. The store may have it nevertheless: the lease is doubtful, and is
given back as soon as the store answers.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import TypeVar

from ..._breaker import Breaker
from ..answers import How, Lease
from ..errors import FleetConfigError, FleetError, FleetUnavailableError
from ..plan import FleetPlan
from ..steps import (
    NoAnswerError,
    StoreLine,
)
from .exchange import AT_ONCE, StoreExchange
from .membership import Membership
from .outage_counts import LocalCounts
from .requests import Question, ToFinish, ToReserve, deliver
from .sessions import HeldSession, ToKeep

SOON = 0.05
"""Seconds within which the end of a call is told."""

_log = logging.getLogger("openbox_agentrt.fleet")

T = TypeVar("T")


class Dispatcher:
    """
    Ask the store for the callers of one worker.

    Args:
        connect: Makes a connection; it connects when it is first used.
        membership: What the worker knows of itself.
        local: What is counted here while the store is away.

    Attributes:
        tried: Set once it has connected, or has failed to for the first time.
    """

    def __init__(self, connect: Callable[[], StoreLine], membership: Membership, local: LocalCounts) -> None:
        self._line = connect()
        self._membership = membership
        self._exchange = StoreExchange(
            self._line,
            membership,
            local,
            give_back=self._give_back,
            rewrite=self._rewrite,
            refuse=self._refuse,
        )
        self._breaker = Breaker()
        self._asked: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        # Appending is atomic and takes no lock: a call may be found lost by a finalizer, anywhere.
        self._ends: deque[ToFinish] = deque()
        # Sessions to be written for which nobody waits.
        self._written: deque[HeldSession] = deque()
        self._asleep = False
        self._closing = False
        self._unusable: str | None = None
        self.tried = threading.Event()
        self.thread = threading.Thread(target=self._run, name="openbox-fleet", daemon=True)

    def ask(self, request: Question) -> None:
        """Put a question into the queue."""
        self._asked.put(request)

    def tell(self, end: ToFinish, *, soon: bool) -> None:
        """Put the end of a call into the queue: `soon` with the next question, else at once."""
        self._ends.append(end)
        if self._asleep or not soon:
            self._asked.put(None)

    def write(self, session: HeldSession, *, soon: bool) -> None:
        """Have a session written: `soon` with the next question, else at once."""
        if not session.queued:
            session.queued = True
            self._written.append(session)
        if self._asleep or not soon:
            self._asked.put(None)

    def record(self, plan: FleetPlan, how: How) -> None:
        """Put a call that ran without a lease into the queue."""
        self._exchange.ran.append((plan, how))
        self._asked.put(None)

    def wake(self) -> None:
        """Look whether there is something to do that nobody asked for."""
        self._asked.put(None)

    def expect_answer(self) -> None:
        """Ask again at once: others have heard from the store."""
        self._breaker.expect_answer()
        self._asked.put(None)

    def close(self) -> None:
        """Send what is queued, leave the store, and end the thread. In an outage it is tried once more."""
        self._breaker.expect_answer()
        self._closing = True
        self._asked.put(None)

    def _run(self) -> None:
        # To connect, to make a schema and to join is nothing that a call has to wait for within its time.
        self._serve([], [])
        self.tried.set()
        while True:
            # What came before the word that it closes is served, or at least tried once more.
            closing = self._closing
            requests = self._collect()
            ends = list(_taken(self._ends, AT_ONCE))
            requests += self._to_write()
            if ends or requests or self._exchange.has_more():
                self._serve(ends, requests)
            elif closing:
                self._exchange.leave()
                return
            # Until the next question comes, nothing here keeps what was asked, nor whose it is.
            del requests, ends
            if closing and self._breaker.is_open:
                self._give_up()
                return

    def _collect(self) -> list[Question]:
        requests = []
        try:
            first = self._asked.get(timeout=0 if self._closing else self._patience())
            while True:
                if first is not None:
                    requests.append(first)
                if len(requests) >= AT_ONCE:
                    break
                first = self._asked.get_nowait()
        except queue.Empty:
            pass
        self._asleep = False
        return [request for request in requests if not request.is_over()]

    def _patience(self) -> float | None:
        # INVARIANT: `_asleep` is set before the queue of ends is looked at, so whoever adds to it later wakes
        # this thread.
        self._asleep = True
        if self._ends or self._written or self._exchange.has_more():
            self._asleep = False
            return SOON
        return None

    def _to_write(self) -> list[Question]:
        until = time.monotonic() + self._membership.lease_seconds
        # What was never held, during an outage, is nobody's to write.
        sessions = list(_taken(self._written, AT_ONCE))
        for session in sessions:
            session.queued = False
        return [ToKeep(until, record=session, soon=True) for session in sessions if session.birth]

    def _serve(self, ends: list[ToFinish], requests: list[Question]) -> None:
        permit = self._breaker.to_tell()
        if permit is None:
            self._refuse(requests, "it has not answered for a while")
            self._ends.extendleft(reversed(ends))
            if self._closing:
                return
            time.sleep(SOON if all(request.is_unawaited() for request in requests) else 0)
            return
        try:
            self._exchange.serve(ends, requests, self._answered)
        except (NoAnswerError, FleetConfigError) as error:
            # What is configured may be mended under way - a password, a folder: how calls ended is told then.
            self._unusable = str(error) if isinstance(error, FleetConfigError) else None
            self._breaker.failed(permit)
            self._membership.unheard(str(error))
            self._ends.extendleft(reversed([end for end in ends if not end.future.done()]))
            self._refuse(requests, str(error))
            if all(request.is_unawaited() for request in requests):
                time.sleep(SOON)
        except Exception as error:  # noqa: BLE001 - fail-closed: whoever waits is refused, and it is logged
            if not isinstance(error, FleetError):
                _log.exception("the fleet's dispatcher failed")
                error = FleetUnavailableError(f"{type(error).__name__} in its client", retry_after=1.0)
            self._fail(ends, requests, error)

    def _answered(self) -> None:
        self._breaker.answered()
        self._unusable = None
        self._membership.answers()

    def _give_back(self, lease: Lease) -> None:
        self._ends.append(ToFinish(lease, "undo"))

    def _rewrite(self, session: HeldSession) -> None:
        session.write_whole()
        self.write(session, soon=True)

    def _refuse(self, requests: list[Question], reason: str) -> None:
        requests = [request for request in requests if not request.has_answer()]
        if self._unusable is not None:
            self._fail([], requests, FleetConfigError(self._unusable))
            return
        self._membership.counts.outages += sum(not request.is_unawaited() for request in requests)
        retry_after = max(0.1, self._breaker.pause_left)
        self._fail([], requests, FleetUnavailableError(reason, retry_after=retry_after))

    def _fail(self, ends: list[ToFinish], requests: list[Question], error: Exception) -> None:
        for request in requests:
            if request.has_answer():
                continue
            if isinstance(request, ToKeep) and request.soon:
                self.write(request.record, soon=True)
                continue
            if isinstance(request, ToReserve):
                self._exchange.give_back_doubtful(request)
            if not request.future.done():
                deliver(request, error)
        for end in ends:
            if not end.future.done():
                end.future.set_exception(error)

    def _give_up(self) -> None:
        ends = list(_taken(self._ends, len(self._ends)))
        if ends or self._written or self._exchange.has_more():
            _log.warning("the fleet's store does not answer: how the last calls ended was not told")
        error = FleetUnavailableError("it was closed during an outage", retry_after=0.0)
        self._fail(ends, [], error)
        self._line.close()


def _taken(ends: deque[T], most: int) -> Iterator[T]:
    for _ in islice(count(), most):
        try:
            yield ends.popleft()
        except IndexError:
            return
