"""A worker as a member of its fleet: under which name, until when, and by which clock of the store."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable

from ..answers import FleetCounts
from ..periods import SECOND
from ..steps import StepAnswer

JUMP = 5 * SECOND
"""So far the store's clock may run from this process's own before somebody is told."""

_log = logging.getLogger("openbox_agentrt.fleet")


class RunningCounts:
    """Count what an operator wants to know about. Threads may lose a count, never a call."""

    def __init__(self) -> None:
        self.outages = self.local = self.doubtful = self.late = self.lost = self.repeated = 0
        self.renewed = self.clock_jumps = self.settled = self.sessions_lost = 0

    def snapshot(self) -> FleetCounts:
        """Give the counts as they are."""
        return FleetCounts(**vars(self))


class WorkerId:
    """
    One identity of a worker, from joining until its lease is over.

    Attributes:
        id: The name, which never comes back.
        acked: The highest count of own steps that the store has told.
        beaten: When the lease was last renewed, by the monotonic clock, and
        beaten_at: by the time of day.
    """

    __slots__ = ("acked", "beaten", "beaten_at", "id")

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.acked = 0
        self.beaten = self.beaten_at = 0.0


class Membership:
    """
    Share between the threads of a worker who it is and what the clock of the store says.

    Attributes:
        worker: Its identity now. It is replaced as a whole, so that a thread never pairs a new name with an
            old count.
        generation: What the store's data is called.
        lease_seconds: How long the worker's word holds without a sign of life.
        counts: What happened.
        suspect: Whether the store seems to have lost something that the worker has to repeat.
        is_dead: Whether the store has said that the worker's lease is over.
    """

    def __init__(self, lease_seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.lease_seconds = lease_seconds
        self.worker = WorkerId()
        self.generation = ""
        self.counts = RunningCounts()
        self.suspect = False
        self.is_dead = False
        self._away = False
        self._monotonic = monotonic
        self._offset: int | None = None

    @property
    def lease_us(self) -> int:
        """The length of a lease in microseconds."""
        return int(self.lease_seconds * SECOND)

    def store_time(self) -> int:
        """Give the store's time, as last told and carried on by the monotonic clock."""
        now = int(self._monotonic() * SECOND)
        return time.time_ns() // 1000 if self._offset is None else now + self._offset

    def time_of(self, deadline: float) -> int:
        """Give the store's time at a moment of the monotonic clock."""
        return self.store_time() + int((deadline - self._monotonic()) * SECOND)

    def outlived(self) -> bool:
        """Tell whether the worker's lease may be over, by its own clock."""
        worker = self.worker
        elapsed = max(self._monotonic() - worker.beaten, time.time() - worker.beaten_at)
        return elapsed >= self.lease_seconds

    def renew(self) -> None:
        """Go on as another worker: the old name is dead."""
        self.worker = WorkerId()
        self.counts.renewed += 1

    def beaten(self, worker: WorkerId, asked: float) -> None:
        """Note that a lease was renewed by what was asked at a time of the monotonic clock."""
        worker.beaten = asked
        # The monotonic clock stands still while a machine sleeps; the other clock does not.
        worker.beaten_at = time.time() - (self._monotonic() - asked)

    def lost_session(self, name: str) -> None:
        """Take note that another worker went on with a session, without what is not written."""
        self.counts.sessions_lost += 1
        _log.warning("another worker went on with session %r", name)

    def unheard(self, reason: str) -> None:
        """Take note that the store gave no answer, and say so once for each outage."""
        if not self._away:
            self._away = True
            _log.warning("the fleet's store does not answer (%s)", reason)

    def answers(self) -> None:
        """Take note that the store answers, and say so after an outage."""
        if self._away:
            self._away = False
            _log.warning("the fleet's store answers again")

    def heard(self, worker: WorkerId, answer: StepAnswer) -> None:
        """Take note of what every answer tells: the store's time, its generation, and own steps."""
        worker.acked = max(worker.acked, answer.ops)
        self._hear_time(answer.now)
        if self.generation and answer.generation != self.generation:
            self.suspect = True
            self.counts.lost += 1
            _log.warning(
                "the fleet's store has lost data: what this worker did in the last seconds is repeated"
            )
        self.generation = answer.generation

    def _hear_time(self, now: int) -> None:
        offset = now - int(self._monotonic() * SECOND)
        if self._offset is not None and abs(offset - self._offset) > JUMP:
            self.counts.clock_jumps += 1
            seconds = (offset - self._offset) / SECOND
            _log.warning("fleet clock jumped: the store's clock went %+.0f s beside this worker's", seconds)
        self._offset = offset
