"""
The calls of a session, judged, reserved and settled: the only place where its memory changes.

Judging a call and reserving it is one step: under the lock, every guard is asked, and only if all
hold do the cells move. Two calls that run side by side can therefore not pass a limit together. The
lock is held for comparisons and additions only. What runs other people's code - matchers, predicates,
clocks - comes before it is taken; tools, hashing and records come after it is released. The one
exception is a contract that is itself code (`custom`), which cannot be judged atomically otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...._primitives import allocate_lock
from ...contracts.base import HALTED, SessionRule
from ...memory.clock import Clock, Timeline, advance, covers, look, together
from ...memory.guard import Breach, blocked_by
from ...memory.session_memory import SessionMemory
from ...memory.state import StateStore
from ...memory.tally import Tally
from ..plan.plan_book import PlanBook
from ..plan.planned_call import PlannedCall
from ..plan.rule_set import RuleSet
from ..plan.tool_plan import NONE, ArgumentRules, Landing, Plan
from .judging import explain
from .rechecking import asked_again, is_to_recheck, judge_again
from .settling_as_ran import End, read_at_end, settle_as_ran

MOST_LANDED = 64
"""So much may be left to be counted of calls that have succeeded, where nobody looks at that."""


class CallStore:
    """
    Judge and settle the calls of one session, each in one atomic step.

    Attributes:
        book: The contracts of the session, and what has to be done for each tool.
        memory: What the contracts remember.
        lock: Held around every change. Whoever takes it settles first what was dropped, see `_settle_ended`.
        step: Position of the latest call.
        under_way: What the success of each call under way moves, by its step. Whoever takes a call out of it
            has to settle that call, and nobody else can.
        landed: What calls have moved that have succeeded, where it is left to be counted, see `Landing`.
        shut: Why nothing is admitted any more.
        violated: Contracts that were broken by what happened, by identity.
    """

    __slots__ = (
        "__weakref__",
        "_dropped",
        "_halts",
        "book",
        "landed",
        "lock",
        "memory",
        "shut",
        "step",
        "under_way",
        "violated",
    )

    _lets_land = True

    def __init__(
        self,
        rules: RuleSet | None,
        state: StateStore | None,
        clock: Clock | None,
        *,
        max_keys: int,
        known: Iterable[str] | None,
        halts: bool,
    ) -> None:
        self.lock = allocate_lock()
        self.memory = SessionMemory(StateStore() if state is None else state, clock, max_keys=max_keys)
        own = RuleSet() if rules is None else rules
        self.book = PlanBook(own, self.memory, self.lock, known, self._lets_land)
        self.step = 0
        self.under_way: dict[int, Landing] = {}
        self.shut: SessionRule | None = None
        self.violated = NONE
        self._halts = halts
        # Filled by finalizers, which may run anywhere, inside a locked section included. Appending is
        # atomic; whoever takes the lock next settles what is in it.
        self._dropped: list[tuple[PlannedCall, End]] = []
        # Extended without the lock, which is atomic as well.
        self.landed: list[Tally] = []

    # NB: what every call goes through has no keyword-only parameters. Python enters such functions slowly.

    def reserve(
        self, call: PlannedCall, at: float | None = None, force: bool = False, refuse: object = False
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
        if force:
            call.watched = True
        if plan.asked and call.extra is None:
            call.extra = plan.ask(call.args)
        timeline = plan.timeline
        shown: Any = None if timeline is None else timeline.look() if at is None else at
        with self.lock:
            if timeline is not None:
                timeline.advance(shown)
            landed = self.landed
            if self._dropped or (landed and (plan.heeds_success or len(landed) > MOST_LANDED)):
                self._settle_ended(timeline)
            if call.extra is not None and call.extra.open:
                plan.decide(call, call.extra)
            if self.shut is None and not refuse and self._let_through(plan, call, False):
                return None
            if not plan.stale:
                self._settle_ended(timeline)
                self.step = call.step = self.step + 1
                return self._object(plan, call, force, refuse)
        call.plan_again(self.book.plan(call.tool))
        return self.reserve(call, at, force, refuse)

    def recheck(self, call: PlannedCall, *, at: float | None = None) -> list[Breach]:
        """
        Judge a call again that was let through and is about to run. It stays reserved, from now on.

        Returns:
            What it would break now. Whether it may still run is for the caller to tell.
        """
        if self.shut is None and not is_to_recheck(call):
            return []
        timeline = together((call.plan.timeline, call.plan.later))
        again = asked_again(call)
        shown = look(timeline, at)
        with self.lock:
            advance(timeline, shown)
            self._settle_ended(timeline)
            return self._recheck(call, again)

    def would(self, call: PlannedCall) -> list[Breach]:
        """Say what a call would break if it were made now. It is not made, and nothing moves."""
        plan = call.plan
        if plan.asked and call.extra is None:
            call.extra = plan.ask(call.args)
        shown = look(plan.timeline, None)
        with self.lock:
            advance(plan.timeline, shown)
            self._settle_ended(plan.timeline)
            call.step = self.step + 1
            if call.extra is not None and call.extra.open:
                plan.decide(call, call.extra)
            return self._objections(plan, call, tell=False)

    def commit(
        self,
        call: PlannedCall,
        result: Any = None,
        at: float | None = None,
        learnt: Mapping[str, Any] | None = None,
    ) -> list[Breach] | None:
        """
        Settle a call that succeeded.

        Args:
            call: The call.
            result: What it returned, of which contracts may remember something.
            at: When it ended, for a recorded call; None for now.
            learnt: What was read out of its result before, if that is not at hand.

        Returns:
            Limits that only what really ran shows to be broken.
        """
        plan = call.plan
        if plan.learns:
            call.learn(result, learnt)
        if call.special or (call.early and call.extra is not None):
            return self._settle(call, "commit", at)
        later = plan.later
        shown: Any = None if later is None else look(later, at)
        with self.lock:
            if later is not None:
                later.advance(shown)
            if self.landed or self._dropped:
                self._settle_ended(later)
            call.under_way.pop(call.step, None)
            if not call.early:
                for tally in plan.counts:
                    tally.done += 1
            for mover, ticket in call.tickets or ():
                mover.commit(ticket, call)
        return None

    def abort(self, call: PlannedCall, *, ran: bool, at: float | None = None) -> list[Breach] | None:
        """Settle a call that failed, if it `ran`, or never ran. Returns what `commit` does."""
        return self._settle(call, "fail" if ran else "undo", at)

    def take_back(self, call: PlannedCall, breaches: list[Breach]) -> None:
        """Take back a call that was let through here and refused elsewhere. It never ran."""
        call.admitted = False
        with self.lock:
            self._settle_ended()
            self._refused_elsewhere(call, breaches)
            if self.shut is None and (self._halts or any(breach.halts() for breach in breaches)):
                self.shut = HALTED

    def hear(self, call: PlannedCall, breaches: list[Breach]) -> None:
        """Take note of what the store of the fleet answered about a call that was let through here."""
        call.answer = None

    def note(self, breaches: list[Breach]) -> None:
        """Take note of contracts that were broken by what happened elsewhere."""
        with self.lock:
            self._note(breaches)

    def lose(self, call: PlannedCall, *, at: float | None = None) -> list[Breach] | None:
        """
        Settle a call of which nobody knows how it ended. Returns what `commit` does.

        It stays counted where it limits, and allows nothing.
        """
        return self._settle(call, "lose", at)

    def drop(self, call: PlannedCall, end: End = "lose") -> None:
        """Settle a call when the lock is taken next. A finalizer may call it at any point."""
        self._dropped.append((call, end))

    def skip(self, call: PlannedCall) -> None:
        """Give a step to a recorded call that never ran, and nothing else."""
        with self.lock:
            self.step += 1
            call.step = self.step

    def settle(self) -> int:
        """Settle what was dropped, and return how many calls are under way."""
        # Clocks are only read for calls that wait for it, see `_settle_ended`.
        timeline = together(self.memory.timelines()) if self._dropped else None
        shown = look(timeline, None)
        with self.lock:
            advance(timeline, shown)
            self._settle_ended(timeline)
            return len(self.under_way)

    def _settle(self, call: PlannedCall, end: End, at: float | None) -> list[Breach] | None:
        ran = call.as_ran() if end != "undo" else None
        timeline = read_at_end(call)
        shown = look(timeline, at)
        with self.lock:
            advance(timeline, shown)
            if self.landed or self._dropped:
                self._settle_ended(timeline)
            return self._end(call, ran, end)

    # The rest is called with the lock held.

    def _halt_of_person(self, call: PlannedCall) -> list[Breach]:
        """Give what a person stops the call by. It is in force also for calls that are only watched."""
        if self.shut is None or not self.shut.by_person:
            return []
        call.watched = False
        return [Breach(contract=self.shut)]

    def _refused_elsewhere(self, call: PlannedCall, breaches: list[Breach]) -> None:
        self._end(call, None, "undo")

    def _object(self, plan: Plan, call: PlannedCall, force: bool, refuse: object) -> list[Breach]:
        if halt := self._halt_of_person(call):
            call.admitted = False
            return halt
        breaches = self._in_order(explain(plan, call)) if force else self._objections(plan, call)
        halting = not force and any(breach.halts() for breach in breaches)
        if refuse or (not force and blocked_by(breaches)):
            call.admitted = False
            if self.shut is None and (self._halts or halting):
                self.shut = HALTED
        else:
            self._let_through(plan, call, True)
            self._note(breaches)
        return breaches

    def _recheck(self, call: PlannedCall, again: ArgumentRules) -> list[Breach]:
        if halt := self._halt_of_person(call):
            return halt
        breaches = self._in_order(judge_again(call, again))
        if call.watched:
            self._note(breaches)
            return breaches
        if self.shut is not None:
            return [Breach(contract=self.shut)]
        halting = any(breach.halts() for breach in breaches)
        if halting and not blocked_by(breaches):
            breaches.append(Breach(contract=HALTED))
        if blocked_by(breaches):
            if self._halts or halting:
                self.shut = HALTED
        else:
            self._note(breaches)
        return breaches

    def _objections(self, plan: Plan, call: PlannedCall, *, tell: bool = True) -> list[Breach]:
        breaches = self._in_order(explain(plan, call, tell=tell))
        if self.shut is not None:
            return [Breach(contract=self.shut)]
        if any(breach.halts() for breach in breaches) and not blocked_by(breaches):
            # What is overdue stops no call by itself; a session that it halts admits none.
            breaches.append(Breach(contract=HALTED))
        return breaches

    def _let_through(self, plan: Plan, call: PlannedCall, anyway: bool) -> bool:
        """Reserve a call, `anyway` or unless a guard objects. Returns whether it did."""
        extra = call.extra
        if not anyway:
            # Most plans have one of these. To ask whether there is anything is quicker than to go through it.
            if plan.need:
                for tally in plan.need:
                    if not tally.done:
                        return False
            if plan.ban:
                for tally in plan.ban:
                    if tally.live:
                        return False
            if plan.caps:
                for tally, n in plan.caps:
                    if tally.live >= n:
                        return False
            if plan.checks:
                for guard in plan.checks:
                    if not guard.passes(call):
                        return False
            if extra is not None:
                for guard in extra.guards:
                    if not guard.passes(call):
                        return False
            self.step = call.step = self.step + 1
        if plan.counts:
            for tally in plan.counts:
                if not tally.live:
                    tally.first = call.step
                tally.live += 1
        landing = plan.landing if extra is None else extra.landing
        if call.early:
            for tally in plan.counts if extra is None else (*plan.counts, *extra.counts):
                tally.done += 1
            landing = None if landing is None else ()
        # Before what may raise: what was taken until then is lost with the call, and settled as that.
        call.under_way = self.under_way
        call.under_way[call.step] = landing
        if movers := plan.movers if extra is None else extra.moves:
            tickets = call.tickets = []
            for mover in movers:
                tickets.append((mover, mover.reserve(call)))
        return True

    def _end(self, call: PlannedCall, ran: PlannedCall | None, end: End) -> list[Breach] | None:
        call.under_way.pop(call.step, None)
        if ran is not None and ran.extra is not None and ran.extra.open:
            ran.plan.decide(ran, ran.extra)
        over = settle_as_ran(call, ran, end)
        if over is None:
            return None
        self._note(over)
        # A person's halt may be lifted; this one is for good.
        lasting = self.shut is not None and not self.shut.by_person
        if not lasting and not call.watched and any(breach.halts() for breach in over):
            self.shut = HALTED
        return self._in_order(over)

    def _note(self, breaches: list[Breach]) -> None:
        self.violated |= {id(breach.contract) for breach in breaches}

    def _in_order(self, breaches: list[Breach]) -> list[Breach]:
        order = self.book.rules.order
        return sorted(breaches, key=lambda breach: order.get(id(breach.contract), -1))

    def _settle_ended(self, timeline: Timeline = None) -> None:
        """Settle what has ended, before anything else; what lives by clocks if those were just read."""
        while self.landed:
            self.landed.pop().done += 1
        if self._dropped:
            self._settle_dropped(timeline)

    def _settle_dropped(self, timeline: Timeline) -> None:
        waiting = []
        while self._dropped:
            call, end = self._dropped.pop()
            # Where nothing ran, what was reserved is given back, and no time is asked for that.
            if end == "undo" or covers(timeline, read_at_end(call)):
                self._end(call, None if end == "undo" else call.ran, end)
            else:
                waiting.append((call, end))
        self._dropped += waiting
