"""
Make one trip to the store at a time, with the steps of questions and of ends.

What the store has lost, or was not told while it was away, is repeated before anything is asked.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from weakref import WeakSet

from ..answers import How, Lease
from ..errors import FleetError, SessionBusyError
from ..plan import FleetPlan
from ..steps import (
    Beat,
    NoAnswerError,
    Step,
    StepAnswer,
    StoreLine,
)
from .lease_steps import LeaseSteps
from .membership import Membership
from .outage_counts import LocalCounts
from .recent_leases import RecentLease, RecentLeases, steps_again
from .requests import Question, ToFinish, ToReserve, deliver
from .sessions import ForSession, HeldSession

AT_ONCE = 64
"""Steps that go in one trip."""

TURNS = 4
"""How often a question is asked anew: after dead workers are settled, under a new id, with new periods."""

_log = logging.getLogger("openbox_agentrt.fleet")


class StoreExchange:
    """
    Ask a store what callers ask, remember what it granted, and hand its answers over.

    Args:
        line: The connection.
        membership: What the worker knows of itself.
        local: What is counted here while the store is away.
        give_back: Called with a lease that the store granted and that nobody was told of.
        rewrite: Called with a session of this worker that the store may have lost.
        refuse: Called with questions that get no answer any more, and why.

    Attributes:
        ran: Calls that ran without a lease.
    """

    def __init__(
        self,
        line: StoreLine,
        membership: Membership,
        local: LocalCounts,
        *,
        give_back: Callable[[Lease], None],
        rewrite: Callable[[HeldSession], None],
        refuse: Callable[[list[Question], str], None],
    ) -> None:
        self._line = line
        self._membership = membership
        self._local = local
        self._rewrite = rewrite
        self._refuse = refuse
        self._recent = RecentLeases()
        self._leases = LeaseSteps(line, membership, self._recent, give_back=give_back, refuse=refuse)
        self.ran: deque[tuple[FleetPlan, How]] = deque()
        self._sessions: WeakSet[HeldSession] = WeakSet()

    def has_more(self) -> bool:
        """Tell whether there is something to tell the store that nobody asks for."""
        return bool(self._membership.suspect or self.ran or self._recent.untold or self._local.left())

    def serve(self, ends: list[ToFinish], requests: list[Question], answered: Callable[[], None]) -> None:
        """
        Tell the store how calls ended, and ask it, until each question has an answer or is refused.

        Args:
            answered: Called each time that the store has answered.

        Raises:
            NoAnswerError: It does not answer.
            FleetConfigError: It cannot be used as it is configured.
        """
        self._attend()
        for _ in range(TURNS):
            steps = [self._leases.finish_step(end) for end in ends]
            asked = [(request, step) for request in requests if (step := self._sendable(request))]
            steps += [step for _, step in asked]
            answers = self._ask(steps)
            answered()
            for end, answer in zip(ends, answers, strict=False):
                self._leases.finished(end, answer)
            told = zip(asked, answers[len(ends) :], strict=True)
            requests = [request for (request, _), answer in told if self._goes_on(request, answer)]
            ends = []
            self._attend()
            if not requests:
                return
        self._refuse(requests, "it gave no lasting answer")

    def give_back_doubtful(self, request: ToReserve) -> None:
        """Give back what the store may have granted, and nobody was told of."""
        self._leases.give_back_doubtful(request)

    def leave(self) -> None:
        """Tell the store that the worker is gone, and close the connection."""
        worker = self._membership.worker
        if worker.beaten:
            try:
                self._line.run([Beat(worker=worker.id, lease_us=0, leave=True, acked=worker.acked)])
            except NoAnswerError:
                # Nothing depends on it: the lease ends by itself.
                _log.debug("worker %s could not say that it leaves", worker.id)
        self._line.close()

    def _ask(self, steps: Sequence[Step]) -> list[StepAnswer]:
        worker = self._membership.worker
        try:
            answers = self._line.run(steps)
        except NoAnswerError as error:
            if error.slow:
                raise
            # A connection that was cut says nothing about the store: once more, with the same ids.
            answers = self._line.run(steps)
        for step, answer in zip(steps, answers, strict=True):
            if step.worker == worker.id:
                self._membership.heard(worker, answer)
        return answers

    def _attend(self) -> None:
        """Join, repeat what was lost, and hand over what was counted here, if there is anything of it."""
        if not self._membership.worker.beaten:
            self._join()
        for _ in range(TURNS):
            if self._membership.suspect:
                self._repair()
            elif self._membership.is_dead:
                self._membership.renew()
                self._join()
            else:
                break
        if self._local.left():
            # Only a store that is there gets what was counted here: until then, it counts here.
            worker = self._membership.worker
            self._ask([Beat(worker=worker.id, lease_us=self._membership.lease_us, acked=worker.acked)])
            for entry in self._local.take():
                self._recent.add_untold(entry)
        while self.ran:
            self._recent.add_untold(self._leases.ran_without(*self.ran.popleft()))
        if self._recent.untold:
            self._repeat(self._recent.untold)
            self._recent.untold = []

    def _join(self, *, lost: bool = False) -> None:
        worker, asked = self._membership.worker, time.monotonic()
        step = Beat(
            worker=worker.id, lease_us=self._membership.lease_us, join=True, lost=lost, acked=worker.acked
        )
        answer = self._line.run([step])[0]
        self._membership.beaten(worker, asked)
        self._membership.heard(worker, answer)
        self._membership.is_dead = False

    def _repair(self) -> None:
        self._membership.suspect = False
        self._leases.forget_names()
        if self._membership.outlived():
            # What was not started was somebody else's to take: only what ran is repeated.
            self._membership.renew()
            for entry in self._recent:
                if not entry.started and entry.how is None:
                    self._recent.drop(entry.lease)
        self._join(lost=True)
        self._repeat(list(self._recent))
        for session in self._sessions:
            if session.worker:
                self._rewrite(session)

    def _repeat(self, entries: list[RecentLease]) -> None:
        worker = self._membership.worker.id
        for at in range(0, len(entries), AT_ONCE // 2):
            some = entries[at : at + AT_ONCE // 2]
            for entry in some:
                entry.worker = worker
            self._ask([step for entry in some for step in steps_again(entry, worker)])
            self._membership.counts.repeated += len(some)

    def _sendable(self, request: Question) -> Step | None:
        """Make the step of a question; None where there is nothing that can be sent, which is told."""
        try:
            return self._step(request)
        except FleetError as error:
            if request.is_unawaited() and not isinstance(error, SessionBusyError):
                _log.error("a session cannot be kept: %s", error)
            deliver(request, error)
            return None

    def _step(self, request: Question) -> Step:
        if isinstance(request, ForSession):
            return request.step(self._membership, self._membership.time_of(request.deadline))
        return self._leases.step(request)

    def _goes_on(self, request: Question, answer: StepAnswer) -> bool:
        """Deliver an answer, or say that the question has to be asked again."""
        if isinstance(request, ForSession):
            self._membership.is_dead |= answer.said == "dead"
            self._sessions.add(request.record)
            return request.goes_on(answer, self._membership)
        return self._leases.goes_on(request, answer)
