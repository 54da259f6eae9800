"""
The memory of a session, and the only place where it changes.

Judging a call and reserving it is one step: under the lock, every guard is asked, and only if all
hold do the cells move. Two calls that run side by side can therefore not pass a limit together. The
lock is held for comparisons and additions only. What runs other people's code - matchers, predicates,
clocks - comes before it is taken; tools, hashing and records come after it is released. The one
exception is a contract that is itself code (`custom`), which cannot be judged atomically otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from ..._plain.arguments import plain_args
from ..contracts.base import HALTED, SessionRule, TemporalContract
from ..contracts.custom import CustomGuard
from ..contracts.declaration import Declaration
from ..match.names import canonical
from ..memory.call import JudgedCall
from ..memory.clock import Clock, MonotoneClock
from ..memory.guard import Breach
from ..memory.state import StateStore
from ..memory.tally import Tally
from ..verdict import Verdict
from .plan import Plan, identity
from .planned_call import PlannedCall
from .registered import Registered


class SessionStore(Registered):
    """
    A store in this process.

    Attributes:
        step: Position of the latest call.
        flying: How many calls are under way.
        shut: Why nothing is admitted any more.
        violated: Contracts that were broken by what happened, by identity.
    """

    def __init__(
        self,
        state: StateStore | None = None,
        clock: Clock | None = None,
        *,
        max_keys: int = 10_000,
        known: Iterable[str] | None = None,
        halts: bool = False,
    ) -> None:
        super().__init__(state, clock, max_keys=max_keys, known=known)
        self.flying = 0
        self.shut: SessionRule | None = None
        self.violated: set[int] = set()
        self._ended: set[int] = set()
        self._halts = halts
        # Filled by finalizers, which may run anywhere, inside a locked section included. Appending is
        # atomic; whoever takes the lock next settles what is in it.
        self._dropped: deque[PlannedCall] = deque()

    def add(self, contract: TemporalContract) -> None:
        """Watch a contract from now on, and answer for its verdict."""
        super().add(contract)
        if isinstance(contract, Declaration):
            contract.settle_in(self)

    def reserve(
        self, call: PlannedCall, *, at: float | None = None, force: bool = False, refuse: object = False
    ) -> list[Breach] | None:
        """
        Judge a call, and let it through if no contract in force objects.

        Args:
            call: The call. Its `step` is set, and `admitted` if it is refused.
            at: When it was, for a recorded call; None for now.
            force: Let it through in any case: it is only watched, or happened already.
            refuse: Do not let it through in any case: it is only to be explained.

        Returns:
            What it would break, contracts that only watch included; None if nothing.
        """
        plan = call.plan
        if plan.asked and call.extra is None:
            call.extra = plan.ask(call.args)
        shown = _look(plan.timelines, at) if plan.timelines else ()
        with self.lock:
            for timeline, moment in zip(plan.timelines, shown, strict=True) if shown else ():
                timeline.advance(moment)
            if self._dropped:
                self._settle_dropped()
            self.step = call.step = self.step + 1
            if self.shut is None and not refuse and self._holds(plan, call):
                self._move(plan, call)
                return None
            return self._object(plan, call, force, refuse)

    def commit(self, call: PlannedCall, *, at: float | None = None) -> list[Breach] | None:
        """A call ran and succeeded. Returns limits that only what was measured shows to be broken."""
        plan = call.plan
        if call.tickets is None:
            with self.lock:
                if self._dropped:
                    self._settle_dropped()
                self.flying -= 1
                if not call.early:
                    for tally in plan.counts:
                        tally.done += 1
            return None
        kept = None if call.final is None else self._kept(call)
        shown = _look(plan.later, at) if plan.later else ()
        with self.lock:
            for timeline, moment in zip(plan.later, shown, strict=True) if shown else ():
                timeline.advance(moment)
            if self._dropped:
                self._settle_dropped()
            self.flying -= 1
            if call.early or kept is not None:
                self._commit_some(call, kept)
            else:
                for tally in plan.counts:
                    tally.done += 1
                for mover, ticket in call.tickets:
                    mover.commit(ticket, call)
            return self._overshot(call) if call.deferred or call.final is not None else None

    def abort(self, call: PlannedCall, *, ran: bool, at: float | None = None) -> None:
        """A call failed, if it `ran`, or never ran."""
        plan = call.plan
        shown = _look(plan.later, at) if plan.later else ()
        with self.lock:
            for timeline, moment in zip(plan.later, shown, strict=True) if shown else ():
                timeline.advance(moment)
            if self._dropped:
                self._settle_dropped()
            self.flying -= 1
            for tally in plan.counts:
                if not ran or tally.refund:
                    tally.undo(call.step, call)
            for mover, ticket in call.tickets or ():
                if ran:
                    mover.fail(ticket, call)
                else:
                    mover.undo(ticket, call)
            if call.early:
                for tally in (*plan.counts, *(call.extra.counts if call.extra is not None else ())):
                    tally.done -= 1

    def lose(self, call: PlannedCall) -> None:
        """
        Nobody knows how a call ended, and nobody will.

        Takes no lock, since a finalizer may call it at any point. It stays counted where it limits, and
        allows nothing.
        """
        self._dropped.append(call)

    def skip(self, call: PlannedCall) -> None:
        """A recorded call that never ran: it has a step and nothing else."""
        with self.lock:
            self.step += 1
            call.step = self.step

    def verdict_of(self, contract: TemporalContract) -> Verdict:
        """How a contract stands."""
        if not isinstance(contract, Declaration):
            return contract.verdict
        with self.lock:
            if id(contract) in self.violated:
                return Verdict.VIOLATED
            if contract.goal is None:
                return Verdict.UNKNOWN
            guard = self.bound[id(contract)].guard(contract.goal)
            return Verdict.SATISFIED if guard.passes(_nothing()) else Verdict.UNKNOWN

    def end(self, *, at: float | None = None, shut: SessionRule | None = None) -> list[Breach]:
        """What is unmet when no more calls come, each contract once. With `shut`, no more may come."""
        timelines = self.memory.timelines()
        shown = _look(timelines, at)
        with self.lock:
            for timeline, moment in zip(timelines, shown, strict=True):
                timeline.advance(moment)
            self._settle_dropped()
            self.shut = shut or self.shut
            unmet = []
            for guard in self._at_end:
                breach = None if id(guard.contract) in self._ended else guard.at_end(_nothing())
                if breach is not None:
                    unmet.append(breach)
                    self._ended.add(id(guard.contract))
            self.violated |= self._ended
            return unmet

    def unmet(self) -> list[Breach]:
        """What `end` would say now. Nothing ends."""
        timelines = self.memory.timelines()
        shown = _look(timelines, None)
        with self.lock:
            for timeline, moment in zip(timelines, shown, strict=True):
                timeline.advance(moment)
            guards = [
                g for g in self._at_end if id(g.contract) not in self._ended and type(g) is not CustomGuard
            ]
            return [breach for guard in guards if (breach := guard.at_end(_nothing())) is not None]

    def happened(self, tool: str, args: dict[str, Any], contract: TemporalContract) -> Verdict:
        """A call that happened, for a store that watches one contract."""
        call = PlannedCall(canonical(tool), plain_args(args), self.plan(tool))
        if self.reserve(call):
            return Verdict.VIOLATED
        self.commit(call)
        return self.verdict_of(contract)

    def settle(self) -> int:
        """Settle what was dropped, and return how many calls are under way."""
        with self.lock:
            self._settle_dropped()
            return self.flying

    # The rest is called with the lock held.

    def _holds(self, plan: Plan, call: PlannedCall) -> bool:
        for tally in plan.need:
            if not tally.done:
                return False
        for tally in plan.ban:
            if tally.live:
                return False
        for tally, n in plan.caps:
            if tally.live >= n:
                return False
        for guard in plan.checks:
            if not guard.passes(call):
                return False
        if call.extra is not None:
            for guard in call.extra.guards:
                if not guard.passes(call):
                    return False
        return True

    def _object(self, plan: Plan, call: PlannedCall, force: bool, refuse: object) -> list[Breach]:
        breaches = self._explain(plan, call)
        if self.shut is not None and not force:
            breaches = [Breach(contract=self.shut)]
        if refuse or (not force and any(breach.blocks() for breach in breaches)):
            call.admitted = False
            if self.shut is None and (self._halts or any(breach.halts() for breach in breaches)):
                self.shut = HALTED
        else:
            self._move(plan, call)
            self.violated.update(id(breach.contract) for breach in breaches)
        return breaches

    def _explain(self, plan: Plan, call: PlannedCall) -> list[Breach]:
        extra = call.extra
        breaches: dict[int, Breach] = {}
        for guard in (*plan.guards, *(extra.guards if extra is not None else ())):
            if id(guard.contract) not in breaches and not guard.passes(call):
                breach = breaches[id(guard.contract)] = guard.explain(call)
                if breach.fault is None and extra is not None:
                    breach.fault = extra.faults.get(id(guard.contract))
        return sorted(breaches.values(), key=lambda breach: self.order.get(id(breach.contract), -1))

    def _move(self, plan: Plan, call: PlannedCall) -> None:
        self.flying += 1
        for tally in plan.counts:
            if not tally.live:
                tally.first = call.step
            tally.live += 1
        extra = call.extra
        if plan.movers or extra is not None:
            movers = plan.movers if extra is None else (*plan.movers, *extra.counts, *extra.movers)
            call.tickets = [(mover, mover.reserve(call)) for mover in movers]
        if call.early:
            for tally in (*plan.counts, *(extra.counts if extra is not None else ())):
                tally.done += 1

    def _commit_some(self, call: PlannedCall, kept: frozenset[Hashable] | None) -> None:
        for tally in call.plan.counts:
            tally.done += not call.early
        for mover, ticket in call.tickets or ():
            if kept is not None and identity(mover) not in kept:
                mover.fail(ticket, call)
            elif not (call.early and type(mover) is Tally):
                mover.commit(ticket, call)

    def _overshot(self, call: PlannedCall) -> list[Breach]:
        guards = (*call.plan.guards, *(call.extra.guards if call.extra is not None else ()))
        over = [Breach(contract=g.contract, stops=False) for g in guards if g.overshoots(call)]
        self.violated.update(id(breach.contract) for breach in over)
        return over

    def _kept(self, call: PlannedCall) -> frozenset[Hashable] | None:
        """What still counts if other arguments ran than were judged; None for everything."""
        if call.extra is None or call.final is None:
            return None
        ran = call.plan.ask(call.final)
        # A prerequisite that what ran does not match is none; a limit is kept.
        lost = call.extra.lenient - ran.lenient
        return frozenset(identity(mover) for mover, _ in call.tickets or ()) - lost

    def _settle_dropped(self) -> None:
        while self._dropped:
            call = self._dropped.popleft()
            self.flying -= 1
            for mover, ticket in call.tickets or ():
                mover.lose(ticket, call)


def _look(timelines: Sequence[MonotoneClock], at: float | None) -> list[float | str]:
    return list(map(MonotoneClock.look, timelines)) if at is None else [at] * len(timelines)


def _nothing() -> JudgedCall:
    # Guards are asked about no call when the session ends.
    return JudgedCall("", {})
