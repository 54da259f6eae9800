"""The memory of a session: the contracts in force, what they remember, and how they stand at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...._plain.arguments import plain_args
from ...._primitives import ref
from ...contracts.base import HALTED, PersonsHalt, SessionRule, TemporalContract
from ...contracts.declaration import Declaration
from ...match.names import normal_name
from ...memory.call import JudgedCall
from ...memory.clock import Clock, advance, look, together
from ...memory.guard import Breach
from ...memory.state import StateStore
from ...verdict import Verdict
from ..plan.planned_call import PlannedCall
from ..plan.rule_set import RuleSet, SharedRules
from ..plan.tool_plan import NONE
from .call_store import CallStore


class SessionStore(CallStore):
    """
    Hold the contracts of one session, let them judge its calls, and tell how they stand.

    See `CallStore` for the calls.
    """

    __slots__ = ("_ended", "_persons")

    def __init__(
        self,
        rules: RuleSet | None = None,
        state: StateStore | None = None,
        clock: Clock | None = None,
        *,
        max_keys: int = 10_000,
        known: Iterable[str] | None = None,
        halts: bool = False,
    ) -> None:
        super().__init__(rules, state, clock, max_keys=max_keys, known=known, halts=halts)
        self._ended = NONE
        self._persons: dict[str, PersonsHalt] | None = None
        if rules is not None:
            self._settle_in(rules)

    @property
    def contracts(self) -> list[TemporalContract]:
        """List the contracts, in the order in which they were added."""
        return self.book.rules.contracts

    def add(self, contract: TemporalContract) -> None:
        """
        Watch a contract from now on, and answer for its verdict.

        Raises:
            TypeError: It is no contract.
            ValueError: It was added before.
        """
        with self.lock:
            self._add(contract)
        if isinstance(contract, Declaration):
            contract.settle_in(ref(self))

    def replace(self, rules: RuleSet) -> None:
        """
        Put other contracts in force in place of all there are, in one step.

        Equal cells are one, so what equal contracts have counted goes on. A call under way ends by the
        contracts that it began by.
        """
        with self.lock:
            self._replace(rules)
        self._settle_in(rules)

    def forget(self) -> None:
        """Remember nothing, as a new store. A call under way ends where it began. The lock is held."""
        self._settle_ended()
        self.book.renew()
        # Another one: steps are counted anew, and a call under way still knows its own.
        self.under_way = {}
        self.resume(step=0, shut=None, violated=NONE)

    def resume(self, *, step: int, shut: SessionRule | None, violated: frozenset[int]) -> None:
        """Go on after a step, beside what cells remember. No call is under way. The lock is held."""
        self.step, self.shut, self.violated, self._ended = step, shut, violated, NONE

    @property
    def journal(self) -> str:
        """Give the name under which a journal tells of this store; empty if none does."""
        return ""

    def note_restored(
        self,
        memory: Mapping[str, Any],
        state: Mapping[str, Any],
        *,
        mark: str | None = None,
        left_by: str | None = None,
    ) -> None:
        """
        Take note that the session goes on where its memory was taken.

        Args:
            memory: What contracts remember.
            state: The state.
            mark: A digest of both, see `note_left`.
            left_by: The journal of whoever left it so.
        """

    def note_left(self, mark: str) -> None:
        """Take note that others may go on with what is remembered now. The lock is held."""

    def tell(self) -> None:
        """Hand on what was noted."""

    def halt_again(self) -> None:
        """Admit nothing more, as when a contract halted the session before it was restored."""
        with self.lock:
            self.shut = self.shut or HALTED

    def halt(self, rule: PersonsHalt, *, of: str = "") -> bool:
        """
        Admit nothing more until `lift`, whether contracts are in force or only watch.

        Args:
            of: Names what was halted: the session may be halted for itself and for its agent.

        Returns:
            Whether it did; False for a session that admits nothing already.
        """
        with self.lock:
            if self._persons is None:
                self._persons = {}
            rule = self._persons.setdefault(of, rule)
            if self.shut is not None:
                return False
            self.shut = rule
            self._halted(rule)
            return True

    def lift(self, *, of: str = "") -> bool:
        """Admit calls again after every `halt` is lifted. Returns whether a person's had been in force."""
        with self.lock:
            persons = self._persons or {}
            persons.pop(of, None)
            left = next(iter(persons.values()), None)
            if self.shut is None or not self.shut.by_person or self.shut is left:
                return False
            self.shut = None
            self._halted(None)
            if left is not None:
                self.shut = left
                self._halted(left)
            return True

    def relearn(self, call: PlannedCall, result: Any) -> None:
        """Remember of a call that was committed what another result of it says as well."""
        if call.learnt is not None:
            known = call.from_result(call.learnt)
            self._learn_again(call, call, call.from_result(call.lessons(result)), known=known)

    def relearn_arguments(self, call: PlannedCall, args: Mapping[str, Any]) -> None:
        """Remember of a call that was committed what other arguments of it say as well."""
        if call.learnt is not None:
            told = call.from_result(call.learnt)
            known = {name: lesson for name, lesson in call.learnt.items() if name not in told}
            same = dict(args) == (call.args if call.final is None else call.final)
            seen, found = (call, known) if same else call.lessons_of_arguments(args)
            self._learn_again(call, seen, found, known)

    def verdict_of(self, contract: TemporalContract) -> Verdict:
        """Tell how a contract stands."""
        if not isinstance(contract, Declaration):
            return contract.verdict
        with self.lock:
            self._settle_ended()
            if id(contract) in self.violated:
                return Verdict.VIOLATED
            bound = self.book.bound_to(contract)
            goal = bound.goal
            if goal is None:
                return Verdict.UNKNOWN
            return Verdict.SATISFIED if bound.guard(goal).passes(_nothing()) else Verdict.UNKNOWN

    def end(self, *, at: float | None = None, shut: SessionRule | None = None) -> list[Breach]:
        """Report what is unmet when no more calls come, each contract once. With `shut`, no more may come."""
        timeline = together(self.memory.timelines())
        shown = look(timeline, at)
        with self.lock:
            advance(timeline, shown)
            self._settle_ended(timeline)
            self.shut = shut or self.shut
            unmet: dict[int, Breach] = {}
            for guard in self.book.at_end():
                key = id(guard.contract)
                breach = None if key in self._ended or key in unmet else guard.at_end(_nothing())
                if breach is not None:
                    unmet[key] = breach
            self._ended |= unmet.keys()
            self.violated |= self._ended
            return list(unmet.values())

    def end_run(self, run: str) -> list[Breach]:
        """Report what one run of the session leaves unmet, and forget it."""
        timeline = together(self.memory.timelines())
        shown = look(timeline, None)
        with self.lock:
            advance(timeline, shown)
            self._settle_ended(timeline)
            guards = self.book.at_end_of_run()
            unmet = [breach for guard in guards if (breach := guard.at_end_of(run, _nothing())) is not None]
            self._note(unmet)
            self.memory.forget_run(run)
            self._ended_run(run, unmet)
            return unmet

    def unmet(self) -> list[Breach]:
        """Say what `end` would report now. Nothing ends."""
        from ...contracts.custom import CustomGuard

        timeline = together(self.memory.timelines())
        shown = look(timeline, None)
        with self.lock:
            advance(timeline, shown)
            self._settle_ended(timeline)
            guards = [guard for guard in self.book.at_end() if type(guard) is not CustomGuard]
            asked = [guard for guard in guards if id(guard.contract) not in self._ended]
            return [breach for guard in asked if (breach := guard.at_end(_nothing())) is not None]

    def happened(self, tool: str, args: dict[str, Any], contract: TemporalContract) -> Verdict:
        """Take note of a call that happened, in a store that watches one contract."""
        call = PlannedCall(normal_name(tool), plain_args(args), self.book.plan(tool))
        if self.reserve(call):
            return Verdict.VIOLATED
        self.commit(call)
        return self.verdict_of(contract)

    def _settle_in(self, rules: RuleSet) -> None:
        if isinstance(rules, SharedRules):
            rules.opened(self)
            return
        for filed in rules.filed.values():
            filed.contract.settle_in(ref(self))

    def _learn_again(
        self, call: PlannedCall, seen: PlannedCall, found: Mapping[str, Any], known: Mapping[str, Any]
    ) -> None:
        if found == known:
            return
        with self.lock:
            for mover in (seen.ran or seen).movers():
                if mover.learns is not None and mover.learns in found:
                    mover.keep(found[mover.learns], seen)

    # Called with the lock held.

    def _add(self, contract: TemporalContract) -> None:
        self.book.add(contract, self.step)

    def _halted(self, rule: PersonsHalt | None) -> None:
        """Take note that a person has halted the session, or has lifted that."""

    def _ended_run(self, run: str, unmet: list[Breach]) -> None:
        """Take note that a run of the session is over."""

    def _replace(self, rules: RuleSet) -> None:
        before = self.book.rules
        self._settle_ended()
        self.book.replace(rules)
        if self.violated:
            now = rules.known_as()
            after = {id(had): id(now[name]) for name, had in before.known_as().items() if name in now}
            self.violated = frozenset(after[key] for key in self.violated if key in after)
            self._ended = frozenset(after[key] for key in self._ended if key in after)


def _nothing() -> JudgedCall:
    # Guards are asked about no call when the session ends.
    return JudgedCall("", {})
