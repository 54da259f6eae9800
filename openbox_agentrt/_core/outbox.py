"""
Reports to Core, in the order in which a run made them, whatever happens to the caller.

A report is telemetry: it cannot fail the call that it is about, and it must not be lost because that call
was cancelled. So a report is data first and a request second. `Outbox.post` only queues, and can be used
where nothing can be awaited (a cancelled task, a closed generator); a detached task sends what is queued.
`Outbox.send` is the ordinary way, and falls back to `post` when it is interrupted: Core deduplicates by
ids, so asking twice is safe and asking never is not.

In an ordered outbox `send` queues as well, and the work goes on while Core is told. The order stays what it
is: a gate waits for what ended before it (`RunState.catch_up`), so a policy that looks back misses nothing
and a HALT in an answer stops what would start next. Two activities that are in the queue together were
therefore both let through before either ended: they ran side by side, and Core could have heard of their
ends in any order. Only such reports are sent at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from time import monotonic
from typing import TYPE_CHECKING, Final

from .._plain.times import rfc3339
from .attempt import stamped

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from ..decision import Answer

log = logging.getLogger(__name__)

Report = Callable[["EventEnvelope"], Awaitable["Answer | None"]]
Heed = Callable[["Answer"], None]

OTHER_LOOP_POLL_SECONDS = 0.005

MOST_QUEUED: Final = 64
"""Reports of a run beyond which whoever adds one waits, however ordered the outbox."""

SENT_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Queued:
    """
    A report that waits to be sent.

    Attributes:
        heed: Told of Core's answer.
        beside: What reports have in common that may be sent at the same time; None for one that is sent
            alone.
    """

    event: EventEnvelope
    heed: Heed | None
    beside: object


class Outbox:
    """
    The reports of one run.

    Args:
        report: Sends one event and never raises, except for cancellation.
        drain: Knows which outboxes still hold something when the governance closes.
        ordered: Whether `send` leaves the sending to the background.
    """

    __slots__ = ("_drain", "_ordered", "_queue", "_report", "_worker")

    def __init__(self, report: Report, drain: Drain, *, ordered: bool = False) -> None:
        self._report = report
        self._drain = drain
        self._ordered = ordered
        self._queue: deque[_Queued] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Reports that Core does not have yet."""
        return len(self._queue)

    async def send(
        self, event: EventEnvelope, *, heed: Heed | None = None, beside: object = None
    ) -> Answer | None:
        """
        Report `event` after everything posted before it. An ordered outbox only waits when it is full.

        Args:
            heed: Told of Core's answer, whenever it comes.
            beside: The work around the activity that `event` ends, if Core was asked about its start.

        Returns:
            Core's answer; None when the report did not reach Core, or is sent in the background.
        """
        if self._ordered or self._queue:
            answers: list[Answer] = []

            def take(answer: Answer) -> None:
                answers.append(answer)
                if heed is not None:
                    heed(answer)

            self.post(event, heed=take, beside=beside)
            if not self._ordered or len(self._queue) > MOST_QUEUED:
                await self.settle()
            return answers[0] if answers else None
        try:
            answer = await self._report(event)
        except BaseException:
            # Interrupted halfway: whether Core has it is unknown, and the same ids may be sent again.
            self.post(event, heed=heed)
            raise
        if answer is not None and heed is not None:
            heed(answer)
        return answer

    def post(self, event: EventEnvelope, *, heed: Heed | None = None, beside: object = None) -> None:
        """Queue `event`; a detached task sends it. Never waits and never raises."""
        # Stamped now: it may be sent later, and says when it happened.
        self._queue.append(_Queued(stamped(event, rfc3339(datetime.now(UTC))), heed, beside))
        self._drain.watch(self)
        self._ensure_worker()

    async def settle(self, *, seconds: float | None = None) -> bool:
        """
        Wait until nothing is pending.

        The work goes on in the background when the time is up or the caller is cancelled.

        Args:
            seconds: How long to wait at most; None for as long as Core's own budgets allow.

        Returns:
            Whether everything was sent.
        """
        end = None if seconds is None else monotonic() + seconds
        while self._queue:
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                return False
            worker = self._ensure_worker()
            if worker is None:
                return False
            if worker.get_loop() is asyncio.get_running_loop():
                await asyncio.wait({worker}, timeout=left)
            else:
                await asyncio.sleep(OTHER_LOOP_POLL_SECONDS)
        return True

    def _ensure_worker(self) -> asyncio.Task[None] | None:
        worker = self._worker
        if worker is not None and not worker.done() and not worker.get_loop().is_closed():
            return worker
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # No loop runs here (a generator closed by the interpreter): the queue keeps the event for
            # `Drain`.
            return None
        # An empty context: the reports belong to no activity and must not be attributed to one.
        self._worker = worker = loop.create_task(self._work(), name="openbox-reports", context=Context())
        return worker

    async def _work(self) -> None:
        while self._queue:
            batch = self._next()
            if len(batch) == 1:
                await self._tell(batch[0])
            else:
                await asyncio.gather(*map(self._tell, batch))
            # Only now: a worker that is cancelled while sending leaves the events for the next one.
            for queued in batch:
                if self._queue and self._queue[0] is queued:
                    self._queue.popleft()
        self._drain.forget(self)
        if self._queue:  # posted by another thread in between
            self._drain.watch(self)

    def _next(self) -> list[_Queued]:
        first = self._queue[0]
        if first.beside is None:
            return [first]
        alike = takewhile(lambda queued: queued.beside is first.beside, tuple(self._queue))
        return list(islice(alike, SENT_AT_ONCE))

    async def _tell(self, queued: _Queued) -> None:
        try:
            answer = await self._report(queued.event)
            if answer is not None and queued.heed is not None:
                queued.heed(answer)
        except Exception:
            # A report that cannot be made must not hold back those behind it.
            log.exception("a report to Core failed and was dropped")


class Drain:
    """The outboxes of a governance that still hold reports."""

    __slots__ = ("_outboxes",)

    def __init__(self) -> None:
        self._outboxes: dict[int, Outbox] = {}

    def watch(self, outbox: Outbox) -> None:
        self._outboxes[id(outbox)] = outbox

    def forget(self, outbox: Outbox) -> None:
        self._outboxes.pop(id(outbox), None)

    @property
    def pending(self) -> int:
        """Reports that Core does not have yet, over all runs."""
        return sum(outbox.pending for outbox in tuple(self._outboxes.values()))

    async def settle(self, *, seconds: float) -> int:
        """
        Wait until every outbox is empty, but not longer than `seconds`.

        Returns:
            The number of reports that were given up.
        """
        end = monotonic() + seconds
        for outbox in tuple(self._outboxes.values()):
            await outbox.settle(seconds=max(0.0, end - monotonic()))
        lost = self.pending
        if lost:
            log.warning("gave up %d reports to Core after %.1f s", lost, seconds)
        return lost
