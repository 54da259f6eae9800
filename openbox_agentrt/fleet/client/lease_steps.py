"""
Put questions about leases into steps for the store, and take in what it answers.

A question without an answer is refused. The store may have it nevertheless: the lease is doubtful, and is
given back as soon as the store answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count

from ..answers import Finished, How, Lease, Reserved
from ..plan import FleetPlan
from ..steps import Adopt, Finish, Park, Reserve, Start, Step, StepAnswer, StoreLine, parked
from ..wire import about, encoded, wire
from .membership import Membership
from .recent_leases import RecentLease, RecentLeases
from .requests import ForLease, Question, ToFinish, ToReserve, deliver
from .settling import settle_all

_log = logging.getLogger("openbox_agentrt.fleet")


class LeaseSteps:
    """
    Put questions about leases into steps, and take in the answers.

    Args:
        line: The connection.
        membership: What the worker knows of itself.
        recent: What the worker did lately.
        give_back: Called with a lease that the store granted and that nobody was told of.
        refuse: Called with questions that get no answer any more, and why.
    """

    def __init__(
        self,
        line: StoreLine,
        membership: Membership,
        recent: RecentLeases,
        *,
        give_back: Callable[[Lease], None],
        refuse: Callable[[list[Question], str], None],
    ) -> None:
        self._line = line
        self._membership = membership
        self._recent = recent
        self._give_back = give_back
        self._refuse = refuse
        self._numbers = count(1)
        self._names: set[tuple[str, int]] = set()

    def give_back_doubtful(self, request: ToReserve) -> None:
        """Give back what the store may have granted, and nobody was told of."""
        if request.lease and not request.dry and self._recent.get(request.lease) is None:
            self._undo(request.granted())

    def forget_names(self) -> None:
        """Tell the store anew what its cells are called: it may have lost that."""
        self._names.clear()

    def ran_without(self, plan: FleetPlan, how: How) -> RecentLease:
        """Make a lease of a call that ran without one."""
        sent, _ = wire(plan, self._membership.store_time())
        return RecentLease(self._next_lease(), self._membership.worker.id, sent, True, how)

    def step(self, request: Question) -> Step:
        """Make the step of a question about a lease."""
        worker = self._membership.worker
        if isinstance(request, ToReserve):
            return self._reserve_step(request)
        assert isinstance(request, ForLease)
        owner, acked = self._owner(request.lease, request.worker)
        if request.step == "start":
            return Start(lease=request.lease, worker=owner, acked=acked)
        if request.step == "park":
            return Park(
                lease=request.lease, worker=owner, for_us=request.for_us, note=request.note, acked=acked
            )
        by = self._membership.time_of(request.deadline)
        return Adopt(lease=request.lease, worker=worker.id, by=by, acked=worker.acked)

    def _owner(self, lease: str, asked: str) -> tuple[str, int]:
        """Say under which name a lease is held, and how many steps of that name the store has counted."""
        entry, worker = self._recent.get(lease), self._membership.worker
        owner = entry.worker if entry else asked
        return owner, worker.acked if owner == worker.id else 0

    def _reserve_step(self, request: ToReserve) -> Step:
        worker = self._membership.worker
        if request.worker != worker.id or not request.lease:
            request.worker, request.lease = worker.id, self._next_lease()
        request.sent, guards = wire(request.plan, self._membership.store_time())
        return Reserve(
            lease=request.lease,
            worker=worker.id,
            plan=request.sent,
            guards=guards,
            by=self._membership.time_of(request.deadline),
            started=request.started,
            force=request.force,
            dry=request.dry,
            generation=self._membership.generation,
            acked=worker.acked,
        )

    def finish_step(self, end: ToFinish) -> Step:
        """Make the step that tells how a call ended."""
        owner, acked = self._owner(end.lease.id, end.lease.worker)
        return Finish(
            lease=end.lease.id,
            worker=owner,
            how=end.how,
            cells=end.lease.cells,
            measured=end.measured,
            acked=acked,
        )

    def finished(self, end: ToFinish, answer: StepAnswer) -> None:
        """Take in what the store says to the end of a call."""
        said, entry = answer.said, self._recent.get(end.lease.id)
        self._recent.finish(end.lease.id, end.how, end.measured)
        if said == "gone" and end.how != "undo" and entry is not None:
            self._force(end, entry)
            said = "late"
        if said == "late":
            self._membership.counts.late += 1
            _log.warning("lease %s was given back, and its call ran: it counts by force", end.lease.id)
        if said not in ("ok", "again", "late", "no"):
            said = "gone"
        if end.future.set_running_or_notify_cancel():
            end.future.set_result(Finished(said=said, over=answer.over))

    def _force(self, end: ToFinish, entry: RecentLease) -> None:
        if self._membership.suspect:
            return  # What the store has lost is repeated as a whole.
        self._recent.drop(entry.lease)
        lease = self._next_lease()
        self._recent.add_untold(RecentLease(lease, entry.worker, entry.plan, True, end.how, end.measured))

    def goes_on(self, request: Question, answer: StepAnswer) -> bool:
        """Deliver an answer, or say that the question has to be asked again."""
        if isinstance(request, ToReserve):
            return self._reserve_goes_on(request, answer)
        assert isinstance(request, ForLease)
        return self._lease_goes_on(request, answer)

    def _lease_goes_on(self, request: ForLease, answer: StepAnswer) -> bool:
        done = answer.said == "ok"
        # The store has lost the lease, perhaps: once that is repeated, it may be another answer.
        is_lost = not done and self._membership.suspect
        if (is_lost or answer.said == "stale") and not request.is_over():
            return True
        held = self._recent.get(request.lease)
        if request.step == "adopt" and held is not None and held.taken:
            # To the store it is the same question again, whose answer was lost.
            done = False
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
        match answer.said:
            case "ok" if request.dry:
                deliver(request, Reserved(lease=None, broken=answer.broken, now=answer.now))
            case "ok":
                self._grant(request, answer)
            case "no" if self._settle_dead(request, answer):
                return True
            case "no":
                deliver(request, _told(answer))
            case "stale" if request.is_over():
                self._refuse([request], "it answered too late")
            case said:
                self._membership.is_dead |= said == "dead"
                if said == "gone":
                    request.lease = ""
                return not request.is_over()
        return False

    def _settle_dead(self, request: ToReserve, answer: StepAnswer) -> bool:
        """Settle once what dead workers hold of what a question needs. Returns whether there was any."""
        if not answer.dead or request.settled:
            return False
        request.settled = True
        settled = settle_all(self._line, (worker for worker in answer.dead if worker != request.worker))
        self._membership.counts.settled += settled
        return settled > 0

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

    def _next_lease(self) -> str:
        """Give a lease id that was never used."""
        return f"{self._membership.worker.id}.{next(self._numbers)}"


def _told(answer: StepAnswer, lease: Lease | None = None) -> Reserved:
    return Reserved(lease=lease, broken=answer.broken, now=answer.now, generation=answer.generation)
