"""
Decisions, derived again from the steps of a session and its rules.

A session's memory is built anew and led through the same events in the same order. What was decided is
compared with what follows; where the two differ, the course that was recorded is followed, so that one
difference is told once.

Not everything can be derived. What rests on code - conditions, contracts and matchers that are functions - is
taken from the record, and so are the numbers of a store that many processes share. What rests on arguments
that were redacted, cut, or came with no end is not derivable, and neither is what rests on a memory that a
session brought along, where neither its log shows it nor that of whoever left it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...._plain.freezing import thawed
from ...contracts.base import PersonsHalt
from ...match.keys import About
from ...memory.deferred import read_deferred
from ...memory.guard import Breach, blocked_by
from ...memory.state import StateStore
from ..fleet.fleet_answer import AnsweredPlan
from ..plan.planned_call import PlannedCall
from ..plan.rule_set import RuleSet
from ..store.session_store import SessionStore
from .comparison import Comparison
from .fleet_decisions import FollowedFleet
from .hidden_parts import has_hidden, is_as_seen
from .journal_rules import SHUT, RerunError, rules_of
from .lessons import FollowedLessons, FollowedStore
from .moved_sessions import Moves
from .taken_over_memory import FollowedMemory
from .unseen_memory import UnseenMemory


class Rerun(Comparison):
    """
    Lead one session through its steps again.

    Attributes:
        answers: What the store of the fleet answered, as far as it could be followed.

    Args:
        moves: What other sessions left, for this one to go on with.
    """

    def __init__(self, moves: Moves | None = None) -> None:
        super().__init__()
        self._moves = moves or Moves()
        self._fleet = FollowedFleet(self, self._rules)
        self._unseen = UnseenMemory(self._rules)
        self._memory = FollowedMemory(self, self._rules, self._unseen, self._moves)
        self._store: FollowedStore | None = None
        self._time: float | str = 0.0
        self._flying: dict[int, PlannedCall] = {}
        self._lessons = FollowedLessons(self._unseen)
        # Calls that had been let through, and were refused before they ran.
        self._stopped: set[int] = set()
        self._make: Callable[[], FollowedStore] = FollowedStore

    @property
    def answers(self) -> list[AnsweredPlan]:
        """List what the store of the fleet answered."""
        return self._fleet.answers

    @property
    def is_memory_hidden(self) -> bool:
        """True if the session went on with a memory that no log shows: how it stands is unknown."""
        return self._memory.is_hidden

    def follow(
        self, steps: Iterable[tuple[int, Mapping[str, Any]]], rules: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[bool]:
        """
        Follow the steps of one session in their order.

        Args:
            steps: Their positions in the log, and what they say.
            rules: The canonical forms and the texts of contracts by their hash, as the log has them.

        Yields:
            True after each step; False while what it goes on with is still to come in the steps of another.

        Raises:
            RerunError: A step cannot be followed.
        """
        known = list(steps)
        late: dict[Any, Any] = {step.get("step"): step["args"] for _, step in known if "args" in step}
        unseen: set[Any] = {step.get("step") for _, step in known if step.get("shown")}
        number = 0
        # The beginning has no time of its own: that of the first step that has one is its.
        times = (step["at"] for _, step in known if "at" in step)
        self._time = next((time for time in times if not isinstance(time, str)), self._time)
        try:
            for number, step in known:
                if step["e"] == "start":
                    self._begin(step, rules_of(number, step, rules))
                elif step["e"] == "replace":
                    self._replace(rules_of(number, step, rules))
                elif self._store is None:
                    raise RerunError(f"line {number}: the session has no beginning here")
                else:
                    while step["e"] == "restore" and self._moves.is_awaited(step):
                        yield False
                    self._take(number, step, late, unseen)
                yield True
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, RerunError):
                raise
            raise RerunError(f"line {number}: not a step ({type(error).__name__})") from error

    def store_at(self, moment: float) -> SessionStore | None:
        """
        Give the session as its steps have left it, at a moment after them; None before its beginning.

        What rests on code is not in it: conditions, and contracts and matchers that are functions.
        """
        if isinstance(self._time, str) or moment > self._time:
            self._time = moment
        return self._store

    def texts(self) -> dict[int, str]:
        """Give the contracts by their identity as they were written, which one built again is not always."""
        pairs = zip(self._rules.contracts, self._rules.texts, strict=False)
        return {id(contract): text for contract, text in pairs if contract is not None}

    @property
    def flying(self) -> tuple[PlannedCall, ...]:
        """List the calls that have begun and not ended."""
        return tuple(self._flying.values())

    def _begin(self, step: Mapping[str, Any], rules: Mapping[str, Any]) -> None:
        self._rules.put(rules)
        alone, scope = bool(step.get("alone")), step.get("default_scope")
        self._fleet.watching = step.get("mode") == "shadow"
        max_keys, halts = step["max_keys"], step["halts"]

        def make(state: Mapping[str, Any] | None = None) -> FollowedStore:
            known = RuleSet(self._rules.known(), alone=alone, default_scope=scope)
            return FollowedStore(known, StateStore(state), self._clock, max_keys=max_keys, halts=halts)

        self._make = make
        self._store = make(thawed(step["state"]))
        self._store.memory.state.resume(step.get("written", {}))
        self._store.memory.digests.key = str(step["run"]).encode()

    def _replace(self, rules: Mapping[str, Any]) -> None:
        if self._store is None:
            raise RerunError("the session has no beginning here")
        like = self._store.book.rules
        self._memory.replace()
        self._unseen.replace(rules, like)
        self._store.replace(RuleSet(self._rules.known(), alone=like.alone, default_scope=like.default_scope))

    def _clock(self) -> float:
        if isinstance(self._time, str):
            raise RuntimeError(self._time)  # noqa: TRY004 - what the session's clock did
        return self._time

    def _take(self, number: int, step: Mapping[str, Any], late: Mapping[int, Any], unseen: set[int]) -> None:
        assert self._store is not None
        self._time = step.get("at", self._time)
        match step["e"]:
            case "reserve":
                hidden = "args" not in step and step["step"] in unseen
                self._reserve(number, step, late.get(step["step"]), hidden=hidden)
            case "fleet":
                known = len(self.differences)
                self._fleet.answer(
                    number, step, self._begun(number, step, "the fleet was asked about a call")
                )
                self._stop(step, known)
            case "commit" | "fail" | "abort" | "lose" as end:
                self._end(number, step, end)
            case "learn":
                self._lessons.learn(number, step, self._store)
            case "recheck":
                self._recheck(number, step)
            case "state":
                self._store.memory.state.update(thawed(step["set"]))
            case "add":
                self._memory.replace()
                contract = self._rules.add(step["contract"], step["text"])
                if contract is not None:
                    self._store.add(contract)
            case "skip":
                self._store.step += 1
            case "restore":
                self._memory.restore(number, step, self._store, self._make)
                self._store.memory.state.load(thawed(step["state"]))
            case "left":
                self._memory.leave(step, self._store)
            case "halt":
                self._store.halt(PersonsHalt(step["why"]))
            case "lift":
                self._store.lift()
            case "end_run":
                unmet = self._store.end_run(step["of_run"])
                self._compare(number, step, True, True, unmet, self._unseen.at_the_end())
            case "end":
                unmet = self._store.end(shut=SHUT[step["shut"]] if "shut" in step else None)
                self._compare(number, step, True, True, unmet, self._unseen.at_the_end())
            case other:
                raise RerunError(f"line {number}: unknown step {other!r:.40}")

    def _reserve(self, number: int, step: Mapping[str, Any], late: Any, *, hidden: bool) -> None:
        assert self._store is not None
        given = step.get("args", late)
        store, allowed = self._store, bool(step["allowed"])
        plan = store.book.plan(step["tool"])
        plain = is_as_seen(given)
        call = PlannedCall(plan.tool, given if plain else thawed(given or {}), plan)
        call.deferred, call.early = read_deferred(thawed(step.get("deferred", []))), bool(step.get("early"))
        call.special = bool(call.deferred or call.early)
        if "subject" in step or "of_run" in step:
            call.about = About(subject=thawed(step.get("subject", {})), run=step.get("of_run", ""))
        keys = step.get("keys", {})
        # What a key is that was folded, no marker in the arguments tells.
        call.memo = dict(keys)
        self._memory.resume(store, step["step"])
        by_code = not allowed and (step.get("code") or any(map(self._is_word, step.get("broken", ()))))
        shut = store.shut
        breaches = store.reserve(call, force=bool(step.get("watched")), refuse=bool(by_code)) or []
        if call.step != step["step"]:
            raise RerunError(f"line {number}: step {call.step} of the session is missing")
        unknown: set[int] = set()
        if hidden or (not plain and (given is None or has_hidden(given))):
            seen = None if hidden else given
            unknown = self._unseen.hide(call, seen, keys)
            self._fleet.hide(call, seen, keys)
        self.count_watched(is_watched=call.watched, breaches=breaches)
        unknown |= self._unseen.about(call)
        self._compare(number, step, allowed, call.admitted, breaches, unknown)
        if self._is_unknown(unknown) or (allowed and not call.admitted):
            # What was let through has halted nothing, and what is unknown only if the log says so.
            store.shut = shut
        if call.admitted is not allowed:
            call = self._follow_record(call, allowed)
        if allowed:
            self._flying[call.step] = call
        else:
            self._halt_as_recorded(step, breaches, refused=True)

    def _halt_as_recorded(self, step: Mapping[str, Any], found: list[Breach], *, refused: bool) -> None:
        """Let what the log says to be broken halt the session, also where that cannot be derived."""
        assert self._store is not None
        told = step.get("broken", ())
        named = self._rules.known([name for name in told if isinstance(name, int)])
        # A contract that is no more has no place; several may be called the same.
        same = [breach for breach in found if self._rules.name(breach) in told]
        self._store.halt_if_broken(
            [*(Breach(contract=contract) for contract in named), *same], refused=refused
        )

    def _follow_record(self, call: PlannedCall, allowed: bool) -> PlannedCall:
        assert self._store is not None
        if not allowed:
            self._store.abort(call, ran=False)
            return call
        self._store.step -= 1
        again = PlannedCall(call.tool, call.args, call.plan)
        again.deferred, again.early, again.special = call.deferred, call.early, call.special
        again.about, again.memo = call.about, call.memo
        self._store.reserve(again, force=True)
        return again

    def _end(self, number: int, step: Mapping[str, Any], end: str) -> None:
        assert self._store is not None
        call = self._begun(number, step, "a call ended")
        del self._flying[call.step]
        if call.step in self._stopped:
            self._stopped.discard(call.step)
            if end != "abort":
                self.differ(number, step, "ran", "refused before")
        self._fleet.end(number, step, call)
        unknown: set[int] = set()
        if "final" in step:
            call.final = thawed(step["final"])
            if has_hidden(step["final"]):
                unknown = self._unseen.hide(call, step["final"], step.get("keys", ()))
        elif step.get("shown"):
            unknown = self._unseen.hide(call, None, ())
        if "measured" in step:
            call.measured = thawed(step["measured"])
        call.special = call.special or call.final is not None or call.measured is not None
        ran = call.as_ran()
        if ran is not None:
            ran.memo = dict(step.get("keys", {}))
        shut = self._store.shut
        over = self._settle(call, step, end)
        unknown |= self._unseen.about(call)
        if end != "abort" and self._is_unknown(unknown):
            self._store.shut = shut
        if end != "abort" and not call.watched:
            self._halt_as_recorded(step, over or [], refused=False)
        if call.question is None and (over or "broken" in step):
            self._compare(number, step, True, True, over or [], unknown)

    def _settle(self, call: PlannedCall, step: Mapping[str, Any], end: str) -> list[Breach] | None:
        assert self._store is not None
        if end == "commit":
            return self._store.commit(call, learnt=self._lessons.of_end(call, step, self._store))
        if end == "lose":
            return self._store.lose(call)
        if end == "abort" and "broken" in step:
            named = self._rules.known([name for name in step["broken"] if isinstance(name, int)])
            self._store.take_back(call, [Breach(contract=contract) for contract in named])
            return None
        return self._store.abort(call, ran=end == "fail")

    def _recheck(self, number: int, step: Mapping[str, Any]) -> None:
        assert self._store is not None
        call = self._begun(number, step, "a call was judged again")
        shut = self._store.shut
        breaches = self._store.recheck(call)
        self.count_watched(is_watched=call.watched, breaches=breaches)
        derived = call.watched or not blocked_by(breaches)
        known = len(self.differences)
        unknown = self._unseen.about(call)
        self._compare(number, step, bool(step["allowed"]), derived, breaches, unknown)
        if self._is_unknown(unknown):
            self._store.shut = shut
            if not step["allowed"]:
                self._halt_as_recorded(step, breaches, refused=True)
        self._stop(step, known)

    def _stop(self, step: Mapping[str, Any], known: int) -> None:
        """Take note of what was said of a call under way, if it follows: it runs if it was allowed last."""
        if step["allowed"] or len(self.differences) > known:
            self._stopped.discard(step["step"])
        else:
            self._stopped.add(step["step"])

    def _compare(
        self,
        number: int,
        step: Mapping[str, Any],
        allowed: bool,
        derived: bool,
        breaches: list[Breach],
        unknown: set[int],
    ) -> None:
        is_unknown = self._is_unknown(unknown)
        self.compare(number, step, allowed, derived, breaches, is_word=self._is_word, is_unknown=is_unknown)

    def _is_unknown(self, unknown: set[int]) -> bool:
        return bool(unknown) or self.is_memory_hidden

    def _begun(self, number: int, step: Mapping[str, Any], what: str) -> PlannedCall:
        call = self._flying.get(step["step"])
        if call is None:
            raise RerunError(f"line {number}: {what} that never began")
        return call

    def _is_word(self, name: int | str) -> bool:
        """Tell whether a recorded breach is taken at its word: that of code, or of an answer not recorded."""
        assert self._store is not None
        is_elsewhere = self._rules.is_of_fleet(name) and not self._store.book.rules.alone
        return self._rules.is_code(name) or is_elsewhere
