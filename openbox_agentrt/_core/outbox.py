"""
The reports of one run, told in their order.

INVARIANT: what is queued is told in the order in which it was queued, for Core seals a workflow at its last
event, and a policy that looks back must miss nothing. Two things bend it:

* Reports with the same `beside` end activities that ran side by side. Core could have heard of them in any
  order, so they are sent at the same time.
* A report that Core has not taken in `MOST_TRIES` tries does not hold back those behind it any longer. They
  are tried in the same pass, and the first that Core takes shows that it is there: what it did not take
  before that is given up, counted and logged.

An outage stalls an outbox. Whoever waits for it then makes one more pass, and so does its `ReportQueue`.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from dataclasses import dataclass
from itertools import islice, takewhile
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from .attempt import Outage, stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openbox_core.contracts.events import EventEnvelope

    from ..decision import Answer

    Heed = Callable[[Answer], None]


log = logging.getLogger(__name__)

MOST_TRIES: Final = 3
"""Tries in which a report holds back those behind it."""

TRY_SECONDS: Final = 1.0
"""Time between two tries that count: what fails within a moment is one trouble."""

MOST_QUEUED: Final = 64
"""Reports of a run beyond which whoever adds one waits, however ordered the outbox."""

SENT_AT_ONCE: Final = 16
OTHER_LOOP_POLL_SECONDS: Final = 0.005


@dataclass(slots=True, eq=False)
class Queued:
    """
    A report that waits to be told.

    Attributes:
        heed: Told of Core's answer.
        beside: What reports have in common that may be sent at the same time; None for one that is sent
            alone.
        tries: How often Core did not take it.
        tried_at: When that was last counted.
        late: Whether an outage kept it from Core.
    """

    event: EventEnvelope
    heed: Heed | None
    beside: object
    tries: int = 0
    tried_at: float = float("-inf")
    late: bool = False

    def failed(self, outage: Outage) -> None:
        """Count a try, unless Core was not asked at all."""
        now = monotonic()
        if not outage.skipped and now - self.tried_at >= TRY_SECONDS:
            self.tries += 1
            self.tried_at = now


class Tell(Protocol):
    """Tell Core of events."""

    async def __call__(
        self, event: EventEnvelope, *, seconds: float | None = None, urgent: bool = False
    ) -> Answer | Outage | None:
        """
        Tell Core of `event`, retries included.

        Args:
            seconds: Time for it; None for the budget of the gate.
            urgent: Try also while Core has not been answering.

        Returns:
            None for a report that Core will never take. Raises nothing but cancellation.
        """


class Backlog(Protocol):
    """
    State what an outbox needs of the queue that it is part of.

    Attributes:
        tell: Tells Core.
        catch_up_seconds: Time that a question may spend on what Core has to hear before it.
        closing: Whether this is the last chance of everything.
    """

    catch_up_seconds: float

    @property
    def tell(self) -> Tell: ...

    @property
    def closing(self) -> bool: ...

    def stamped(self, event: EventEnvelope) -> EventEnvelope:
        """Give `event` the present time, unless it has a time."""

    async def deliver(self, event: EventEnvelope, *, urgent: bool = False) -> Answer | Outage | None:
        """
        Tell Core of what was queued.

        Args:
            urgent: Try also while Core has not been answering.
        """

    def has_room(self) -> bool:
        """Tell whether one more may be kept in an outage; if not, it is counted as lost."""

    def opened(self, outbox: Outbox) -> None:
        """There is something in `outbox`."""

    def emptied(self, outbox: Outbox) -> None:
        """There is nothing in `outbox`."""

    def stalled(self, outbox: Outbox, kept: Sequence[Queued]) -> None:
        """Core does not take what is in `outbox` for the moment."""

    def gave_up(self, lost: Sequence[Queued]) -> None:
        """Core answers, and did not take these."""


class Outbox:
    """
    The reports of one run. Made by `ReportQueue.outbox`.

    `post` only queues, and can be used where nothing can be awaited (a cancelled task, a closed generator); a
    detached task sends what is queued. `send` is the ordinary way, and queues when it is interrupted: Core
    deduplicates by ids, so telling twice is safe and telling never is not.

    In an ordered outbox `send` queues as well, and the work goes on while Core is told. A gate waits for what
    ended before it (`catch_up`), so a HALT in an answer stops what would start next.
    """

    __slots__ = ("_backlog", "_ordered", "_queue", "_stalled", "_worker")

    def __init__(self, backlog: Backlog, *, ordered: bool) -> None:
        self._backlog = backlog
        self._ordered = ordered
        self._queue: list[Queued] = []
        self._stalled = False
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
            return await self._send_behind(event, heed, beside)
        try:
            outcome = await self._backlog.tell(event)
        except BaseException:
            # Interrupted halfway: whether Core has it is unknown, and the same ids may be sent again.
            self.post(event, heed=heed)
            raise
        if isinstance(outcome, Outage):
            self._keep(Queued(stamped(event, outcome.asked_at), heed, beside), outcome)
            return None
        if outcome is not None and heed is not None:
            heed(outcome)
        return outcome

    def post(self, event: EventEnvelope, *, heed: Heed | None = None, beside: object = None) -> None:
        """Queue `event`; a detached task sends it. Never waits and never raises."""
        if self._stalled and not self._backlog.has_room():
            return
        # Stamped now: it may be sent later, and says when it happened.
        queued = Queued(self._backlog.stamped(event), heed, beside)
        self._queue.append(queued)
        self._backlog.opened(self)
        if self._stalled:
            self._backlog.stalled(self, [queued])
        else:
            self._ensure_worker()

    async def catch_up(self) -> None:
        """
        Wait until Core has heard of what ended before a question, as far as it takes it.

        What it did not take in `MOST_TRIES` tries is not waited for.
        """
        if any(queued.tries < MOST_TRIES for queued in self._queue):
            await self.settle(seconds=self._backlog.catch_up_seconds, urgent=True)

    async def settle(self, *, seconds: float | None = None, urgent: bool = False) -> bool:
        """
        Wait until nothing is pending, or Core does not take it for the moment.

        The work goes on in the background when the time is up or the caller is cancelled.

        Args:
            seconds: How long to wait at most; None for as long as Core's own budgets allow.
            urgent: Try also while Core has not been answering.

        Returns:
            Whether everything was told.
        """
        end = None if seconds is None else monotonic() + seconds
        tried = False
        while self._queue:
            left = None if end is None else end - monotonic()
            if (left is not None and left <= 0) or (self._stalled and tried):
                return False
            worker = self._ensure_worker(urgent=urgent)
            if worker is None:
                return False
            tried = True
            if worker.get_loop() is asyncio.get_running_loop():
                await asyncio.wait({worker}, timeout=left)
            else:
                await asyncio.sleep(OTHER_LOOP_POLL_SECONDS)
        return True

    def clear(self) -> Sequence[Queued]:
        """Take out what is left: nobody will tell it any more."""
        left, self._queue = self._queue, []
        worker = self._worker
        if worker is not None and not worker.done() and worker.get_loop() is asyncio.get_running_loop():
            worker.cancel()
        self._stalled = False
        self._backlog.emptied(self)
        return left

    async def _send_behind(self, event: EventEnvelope, heed: Heed | None, beside: object) -> Answer | None:
        answers: list[Answer] = []

        def take(answer: Answer) -> None:
            answers.append(answer)
            if heed is not None:
                heed(answer)

        self.post(event, heed=take, beside=beside)
        if not self._ordered or len(self._queue) > MOST_QUEUED:
            await self.settle()
        return answers[0] if answers else None

    def _keep(self, queued: Queued, outage: Outage) -> None:
        """Core was not there for `queued`; what comes later waits behind it."""
        if self._backlog.has_room():
            queued.failed(outage)
            self._queue.append(queued)
            self._backlog.opened(self)
            self._stall()

    def _stall(self) -> None:
        self._stalled = True
        self._backlog.stalled(self, self._queue)

    def _ensure_worker(self, *, urgent: bool = False) -> asyncio.Task[None] | None:
        worker = self._worker
        if worker is not None and not worker.done() and not worker.get_loop().is_closed():
            return worker
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # No loop runs here (a generator closed by the interpreter): `ReportQueue.settle` tells it.
            return None
        self._stalled = False
        # An empty context: the reports belong to no activity and must not be attributed to one.
        self._worker = worker = loop.create_task(
            self._work(urgent), name="openbox-reports", context=Context()
        )
        return worker

    async def _work(self, urgent: bool) -> None:
        """Tell Core once what is queued, and stop at what it does not take."""
        passed_over = 0
        while passed_over < len(self._queue):
            batch = self._next(passed_over)
            # What stands behind a report that Core did not take tells whether it is there at all.
            told = await asyncio.gather(*(self._tell(queued, urgent or passed_over > 0) for queued in batch))
            # Only now: a worker that is cancelled while sending leaves the reports for the next one.
            failed = [queued for queued, done in zip(batch, told, strict=True) if not done]
            if len(failed) < len(batch):
                self._backlog.gave_up(self._queue[:passed_over])
                del self._queue[:passed_over]
                self._queue = [queued for queued in self._queue if queued in failed or queued not in batch]
                passed_over = 0
            if failed and self._holds_back(failed):
                break
            passed_over += len(failed)
        if self._queue:
            self._stall()
        else:
            self._backlog.emptied(self)

    def _holds_back(self, failed: list[Queued]) -> bool:
        return not self._backlog.closing and min(queued.tries for queued in failed) < MOST_TRIES

    def _next(self, position: int) -> list[Queued]:
        first = self._queue[position]
        if first.beside is None:
            return [first]
        alike = takewhile(lambda queued: queued.beside is first.beside, self._queue[position:])
        return list(islice(alike, SENT_AT_ONCE))

    async def _tell(self, queued: Queued, urgent: bool) -> bool:
        """Tell Core of `queued`; False if it has to be told again."""
        try:
            outcome = await self._backlog.deliver(queued.event, urgent=urgent)
            if isinstance(outcome, Outage):
                queued.failed(outcome)
                return False
            if outcome is not None and queued.heed is not None:
                queued.heed(outcome)
        except Exception:
            # A report that cannot be made must not hold back those behind it.
            log.exception("a report to openbox core failed and was dropped")
        return True
