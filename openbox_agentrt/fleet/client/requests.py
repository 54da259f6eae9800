"""Callers put these questions to the dispatcher, and wait for them."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from ..answers import Finished, How, Lease, Measured, Reserved
from ..plan import FleetPlan
from ..wire import WirePlan


class AwaitedAnswer(Future[Any]):
    """
    An answer to come, for the process that has asked: one that was forked meanwhile never hears it.

    Attributes:
        process: That process.
    """

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()


@dataclass(slots=True, eq=False)
class Question:
    """
    A question with a time by which nobody waits any more.

    Attributes:
        future: Where the answer goes. It is cancelled by whoever gave up.
        deadline: That time, by the monotonic clock.
    """

    deadline: float
    future: Future[Any] = field(default_factory=AwaitedAnswer)

    def is_over(self) -> bool:
        """Tell whether nobody waits for it."""
        return self.future.cancelled() or time.monotonic() >= self.deadline

    def is_unawaited(self) -> bool:
        """Tell whether nobody ever waited for it."""
        return False

    def has_answer(self) -> bool:
        """Tell whether whoever asked was told."""
        return self.future.done() and not self.future.cancelled()


@dataclass(slots=True, eq=False)
class ToReserve(Question):
    """
    A plan to be judged. `lease` is the id that is tried now, and `sent` what the store was asked.

    With `dry` it is only judged.
    """

    plan: FleetPlan = field(kw_only=True)
    started: bool = False
    force: bool = False
    dry: bool = False
    lease: str = ""
    worker: str = ""
    sent: WirePlan | None = None
    settled: bool = False

    def granted(self) -> Lease:
        """Give the lease that the store has granted."""
        cells = () if self.sent is None else tuple(cell.id for cell in self.sent.c)
        return Lease(id=self.lease, worker=self.worker, cells=cells)


@dataclass(slots=True, eq=False)
class ForLease(Question):
    """A step of one lease: its start, or its way to a person and back."""

    step: Literal["start", "park", "adopt"] = field(kw_only=True)
    lease: str = field(kw_only=True)
    worker: str = ""
    for_us: int = 0
    note: str = ""


@dataclass(slots=True, eq=False)
class ToFinish:
    """The end of a lease. It is told until the store has answered."""

    lease: Lease
    how: How
    measured: Measured | None = None
    future: Future[Finished] = field(default_factory=Future)


def deliver(request: Question, answer: Reserved | Lease | bool | BaseException | None) -> bool:
    """Give a caller the answer. Returns whether somebody still waited for it."""
    if not request.future.set_running_or_notify_cancel():
        return False
    if isinstance(answer, BaseException):
        request.future.set_exception(answer)
    else:
        request.future.set_result(answer)
    return True
