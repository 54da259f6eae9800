"""
One trip to the store: the steps of questions and of ends, and what the answers to them mean.

A question without an answer is refused. The store may have it nevertheless: the lease is doubtful, and is
given back as soon as the store answers. What the store has lost is repeated before anything is asked.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from weakref import WeakSet

from ..answers import Finished, How, Lease, Reserved
from ..errors import FleetError, SessionBusyError
from ..periods import edges_around
from ..plan import FleetPlan
from ..steps import (
    Adopt,
    Beat,
    Finish,
    NoAnswerError,
    Park,
    Reserve,
    Start,
    Step,
    StepAnswer,
    StoreLine,
    parked,
)
from ..wire import about, encoded, wire
from .membership import Membership
from .outage_counts import LocalCounts
from .recent_leases import RecentLease, RecentLeases, steps_again
from .requests import ForLease, Question, ToFinish, ToReserve, deliver
from .sessions import ForSession, HeldSession
from .settling import settle_all

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
        self._give_back = give_back
        self._rewrite = rewrite
        self._refuse = refuse
        self._recent = RecentLeases()
        self._numbers = count(1)
        self._names: set[tuple[str, int]] = set()
        self._again: list[RecentLease] = []
        self.ran: deque[tuple[FleetPlan, How]] = deque()
        self._dead = False
        self._sessions: WeakSet[HeldSession] = WeakSet()

    def has_more(self) -> bool:
        """Tell whether there is something to tell the store that nobody asks for."""
        return bool(self._membership.suspect or self.ran or self._again or self._local.left())

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
            steps = [self._end_step(end) for end in ends]
            asked = [(request, step) for request in requests if (step := self._sendable(request))]
            steps += [step for _, step in asked]
            answers = self._ask(steps)
            answered()
            for end, answer in zip(ends, answers, strict=False):
                self._ended(end, answer)
            told = zip(asked, answers[len(ends) :], strict=True)
            requests = [request for (request, _), answer in told if self._goes_on(request, answer)]
            ends = []
            self._attend()
            if not requests:
                return
        self._refuse(requests, "it gave no lasting answer")

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

    def is_doubtful(self, request: ToReserve) -> bool:
        """Tell whether the store may have granted what nobody was told of."""
        return bool(request.lease) and not request.dry and self._recent.get(request.lease) is None

    def _next_lease(self) -> str:
        """Give a lease id that was never used."""
        return f"{self._membership.worker.id}.{next(self._numbers)}"

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
            elif self._dead:
                self._membership.renew()
                self._join()
            else:
                break
        if self._local.left():
            # Only a store that is there gets what was counted here: until then, it counts here.
            worker = self._membership.worker
            self._ask([Beat(worker=worker.id, lease_us=self._membership.lease_us, acked=worker.acked)])
            self._again += [self._adopted(entry) for entry in self._local.take()]
        while self.ran:
            self._again.append(self._as_entry(*self.ran.popleft()))
        if self._again:
            self._repeat(self._again)
            self._again = []

    def _join(self, *, lost: bool = False) -> None:
        worker, asked = self._membership.worker, time.monotonic()
        step = Beat(
            worker=worker.id, lease_us=self._membership.lease_us, join=True, lost=lost, acked=worker.acked
        )
        answer = self._line.run([step])[0]
        self._membership.beaten(worker, asked)
        self._membership.heard(worker, answer)
        self._dead = False

    def _repair(self) -> None:
        self._membership.suspect = False
        self._names.clear()
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

    def _as_entry(self, plan: FleetPlan, how: How) -> RecentLease:
        now = self._membership.store_time()
        sent, _ = wire(plan, lambda per, tz: edges_around(per, tz, now))
        entry = RecentLease(self._next_lease(), self._membership.worker.id, sent, True, how)
        return self._adopted(entry)

    def _adopted(self, entry: RecentLease) -> RecentLease:
        self._recent.add(entry)
        return entry

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
        worker = self._membership.worker
        if isinstance(request, ForSession):
            return request.step(self._membership, self._latest(request))
        if isinstance(request, ToReserve):
            return self._reserve_step(request)
        assert isinstance(request, ForLease)
        entry = self._recent.get(request.lease)
        owner = entry.worker if entry else request.worker
        acked = worker.acked if owner == worker.id else 0
        if request.step == "start":
            return Start(lease=request.lease, worker=owner, acked=acked)
        if request.step == "park":
            return Park(
                lease=request.lease, worker=owner, for_us=request.for_us, note=request.note, acked=acked
            )
        return Adopt(lease=request.lease, worker=worker.id, by=self._latest(request), acked=worker.acked)

    def _reserve_step(self, request: ToReserve) -> Step:
        worker = self._membership.worker
        if request.worker != worker.id or not request.lease:
            request.worker, request.lease = worker.id, self._next_lease()
        now = self._membership.store_time()
        request.sent, guards = wire(request.plan, lambda per, tz: edges_around(per, tz, now))
        return Reserve(
            lease=request.lease,
            worker=worker.id,
            plan=request.sent,
            guards=guards,
            by=self._latest(request),
            started=request.started,
            force=request.force,
            dry=request.dry,
            generation=self._membership.generation,
            acked=worker.acked,
        )

    def _latest(self, request: Question) -> int:
        """Give the store's time after which nobody waits for the answer."""
        return self._membership.store_time() + int((request.deadline - time.monotonic()) * 1_000_000)

    def _end_step(self, end: ToFinish) -> Step:
        worker, entry = self._membership.worker, self._recent.get(end.lease.id)
        owner = entry.worker if entry else end.lease.worker
        acked = worker.acked if owner == worker.id else 0
        return Finish(
            lease=end.lease.id,
            worker=owner,
            how=end.how,
            cells=end.lease.cells,
            measured=end.measured,
            acked=acked,
        )

    def _ended(self, end: ToFinish, answer: StepAnswer) -> None:
        said, entry = answer.said, self._recent.get(end.lease.id)
        self._recent.finish(end.lease.id, end.how, end.measured)
        if said == "gone" and end.how != "undo" and entry is not None and self._force(end, entry):
            said = "late"
        if said == "late":
            self._membership.counts.late += 1
            _log.warning("lease %s was given back, and its call ran: it counts by force", end.lease.id)
        if said not in ("ok", "again", "late", "no"):
            said = "gone"
        if end.future.set_running_or_notify_cancel():
            end.future.set_result(Finished(said=said, over=answer.over))

    def _force(self, end: ToFinish, entry: RecentLease) -> bool:
        if self._membership.suspect:
            # What the store has lost is repeated as a whole.
            return True
        self._recent.drop(entry.lease)
        entry = RecentLease(self._next_lease(), entry.worker, entry.plan, True, end.how, end.measured)
        self._recent.add(entry)
        self._again.append(entry)
        return True

    def _goes_on(self, request: Question, answer: StepAnswer) -> bool:
        """Deliver an answer, or say that the question has to be asked again."""
        if isinstance(request, ToReserve):
            return self._reserve_goes_on(request, answer)
        if isinstance(request, ForSession):
            self._dead |= answer.said == "dead"
            self._sessions.add(request.record)
            return request.goes_on(answer, self._membership)
        assert isinstance(request, ForLease)
        done = answer.said == "ok"
        if not done and self._membership.suspect and not request.is_over():
            # The store has lost the lease, perhaps: once that is repeated, it may be another answer.
            return True
        held = self._recent.get(request.lease)
        if request.step == "adopt" and held is not None and held.taken:
            # To the store it is the same question again, whose answer was lost.
            done = False
        if answer.said == "stale" and not request.is_over():
            return True
        if done:
            self._note(request)
        if request.step != "adopt":
            deliver(request, done)
        else:
            lease = self._taken_over(request.lease, answer) if done else None
            if not deliver(request, lease) and lease is not None:
                self._undo(lease)
        return False

    def _note(self, request: ForLease) -> None:
        entry = self._recent.get(request.lease)
        if entry is not None and request.step == "start":
            entry.started = True
        elif entry is not None and request.step == "park":
            entry.worker, entry.taken = parked(request.lease), False

    def _taken_over(self, lease: str, answer: StepAnswer) -> Lease:
        worker = self._membership.worker.id
        cells: tuple[str, ...] = ()
        if answer.plan is not None:
            cells = tuple(cell.id for cell in answer.plan.c)
            self._recent.add(RecentLease(lease, worker, answer.plan, False, taken=True))
        return Lease(id=lease, worker=worker, cells=cells, note=answer.note)

    def _reserve_goes_on(self, request: ToReserve, answer: StepAnswer) -> bool:
        said = answer.said
        if said == "ok" and request.dry:
            deliver(request, Reserved(lease=None, broken=answer.broken, now=answer.now))
        elif said == "ok":
            self._grant(request, answer)
        elif said == "no" and answer.dead and not request.settled:
            request.settled = True
            settled = settle_all(self._line, (w for w in answer.dead if w != request.worker))
            self._membership.counts.settled += settled
            if settled:
                return True
            deliver(request, _told(answer))
        elif said == "no":
            deliver(request, _told(answer))
        elif said == "stale" and request.is_over():
            self._refuse([request], "it answered too late")
        else:
            self._dead |= said == "dead"
            if said == "gone":
                request.lease = ""
            return not request.is_over()
        return False

    def _grant(self, request: ToReserve, answer: StepAnswer) -> None:
        lease, plan = request.granted(), request.sent
        assert plan is not None
        self._recent.add(RecentLease(lease.id, lease.worker, plan, request.started))
        if not deliver(request, _told(answer, lease)):
            self._undo(lease)
        self._name(request.plan)

    def _name(self, plan: FleetPlan) -> None:
        names = {(cell.name, cell.scale) for cell in plan.cells} - self._names
        if names:
            self._names |= names
            self._line.tell({cell: encoded(told) for cell, told in about(plan).items()})

    def _undo(self, lease: Lease) -> None:
        self._membership.counts.doubtful += 1
        self._give_back(lease)


def _told(answer: StepAnswer, lease: Lease | None = None) -> Reserved:
    return Reserved(lease=lease, broken=answer.broken, now=answer.now, generation=answer.generation)
