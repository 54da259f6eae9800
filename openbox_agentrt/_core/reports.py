"""
Reports that Core has not taken yet, of all runs of a governance.

A report is telemetry: it cannot fail the call that it is about, and it must not be lost because that call was
cancelled or because Core was away for a moment. A completion that Core never hears of leaves a row open for
ever, and so does a run that never ends. So each run has an `Outbox`, and what an outage stalls in it is told
when Core answers anything, when the run asks a question, after a pause, and when the governance is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from time import monotonic
from typing import TYPE_CHECKING, Final

from .attempt import Outage
from .outbox import Outbox, Queued, Tell

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from ..decision import Answer
    from .counts import GateCounts


log = logging.getLogger(__name__)

MOST_KEPT: Final = 4096
"""Reports that an outage may keep. Further ones are lost: memory must not grow as long as Core is away."""

OUTBOXES_AT_ONCE: Final = 16
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0


class ReportQueue:
    """
    Hold the outboxes of all runs.

    Args:
        tell: Tells Core.
        stamped: Gives an event the present time, unless it has a time.
        counts: Where late and lost reports are counted.
        catch_up_seconds: Time that a question may spend on what Core has to hear before it. Less than its
            budget: a report that Core does not take must not keep the question from being asked.

    Attributes:
        has_stalled: Whether an outage keeps something from Core.
    """

    def __init__(
        self,
        tell: Tell,
        stamped: Callable[[EventEnvelope], EventEnvelope],
        counts: GateCounts,
        *,
        catch_up_seconds: float,
    ) -> None:
        self.stamped = stamped
        self.catch_up_seconds = catch_up_seconds
        self.tell = tell
        self._counts = counts
        self.has_stalled = False
        self._open: dict[int, Outbox] = {}
        self._stalled: dict[int, Outbox] = {}
        self._resuming: asyncio.Task[None] | None = None
        self._pause = FIRST_PAUSE
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closes_at: float | None = None

    def outbox(self, *, ordered: bool = False) -> Outbox:
        """Make the outbox of one run. An `ordered` one leaves the sending to the background."""
        return Outbox(self, ordered=ordered)

    @property
    def pending(self) -> int:
        """Reports that Core does not have yet, over all runs."""
        return sum(outbox.pending for outbox in tuple(self._open.values()))

    def core_answers(self) -> None:
        """Core has answered somebody: tell it in the background what an outage kept."""
        if self._stalled and monotonic() >= self._not_before:
            self._resume()

    async def settle(self, *, seconds: float) -> int:
        """
        Wait until everything is told, but not longer than `seconds`. What is left then is told no more.

        Returns:
            The number of reports that were given up.
        """
        self._closes_at = monotonic() + seconds
        try:
            for outbox in tuple(self._open.values()):
                await outbox.settle(seconds=max(0.0, self._closes_at - monotonic()))
        finally:
            self._closes_at = None
        lost = sum(len(outbox.clear()) for outbox in tuple(self._open.values()))
        if lost:
            self._counts.reports_lost += lost
            log.warning("gave up %d reports that openbox core did not take", lost)
        return lost

    @property
    def closing(self) -> bool:
        """True while everything has its last chance."""
        return self._closes_at is not None

    async def deliver(self, event: EventEnvelope, *, urgent: bool = False) -> Answer | Outage | None:
        """Tell Core of what was queued."""
        if self._closes_at is None:
            return await self.tell(event, urgent=urgent)
        # Half of what is left, so that one that Core does not take leaves some for those behind it.
        left = max(0.0, self._closes_at - monotonic())
        return await self.tell(event, seconds=left / 2, urgent=True)

    def has_room(self) -> bool:
        """Tell whether one more may be kept in an outage; if not, it is counted as lost."""
        if sum(outbox.pending for outbox in tuple(self._stalled.values())) < MOST_KEPT:
            return True
        self._counts.reports_lost += 1
        return False

    def opened(self, outbox: Outbox) -> None:
        """There is something in `outbox`."""
        self._open[id(outbox)] = outbox

    def emptied(self, outbox: Outbox) -> None:
        """There is nothing in `outbox`."""
        self._open.pop(id(outbox), None)
        self._stalled.pop(id(outbox), None)
        self.has_stalled = bool(self._stalled)
        if outbox.pending:  # posted by another thread in between
            self.opened(outbox)

    def stalled(self, outbox: Outbox, kept: Sequence[Queued]) -> None:
        """Core does not take what is in `outbox` for the moment."""
        self._stalled[id(outbox)] = outbox
        self.has_stalled = True
        for queued in kept:
            self._counts.reports_late += not queued.late
            queued.late = True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # a generator closed by the interpreter; the next question or `settle` tells it
        if self._timer is None or self._timer.when() < loop.time():
            # Where nobody asks anything, nothing else would find out that Core is back.
            self._timer = loop.call_later(self._pause, self._resume, context=Context())

    def gave_up(self, lost: Sequence[Queued]) -> None:
        """Core answers, and did not take these."""
        self._counts.reports_lost += len(lost)
        for queued in lost:
            name, about = queued.event.event_type.value, queued.event.activity_type
            log.warning("gave up the report %s of %r: openbox core answers and does not take it", name, about)

    def _resume(self) -> None:
        self._timer = None
        task = self._resuming
        if task is None or task.done() or task.get_loop().is_closed():
            # An empty context: the reports belong to no activity and must not be attributed to one.
            self._resuming = asyncio.get_running_loop().create_task(
                self._work_off(), name="openbox-late-reports", context=Context()
            )

    async def _work_off(self) -> None:
        left = deque(self._stalled.values())

        async def work() -> None:
            while left:
                if not await left.popleft().settle():
                    left.clear()  # Core does not answer: nobody else needs to find out

        await asyncio.gather(*(work() for _ in range(min(len(left), OUTBOXES_AT_ONCE))))
        self._pause = min(2 * self._pause, LONGEST_PAUSE) if self._stalled else FIRST_PAUSE
        self._not_before = monotonic() + self._pause if self._stalled else 0.0
