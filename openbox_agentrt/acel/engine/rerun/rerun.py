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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...._plain.freezing import thawed
from ...contracts.base import PersonsHalt
from ...contracts.template import Template
from ...memory.guard import Breach, blocked_by
from ...memory.state import StateStore
from ..plan.planned_call import PlannedCall
from ..plan.rule_set import RuleSet
from ..snapshot.snapshot import SHUT
from ..store.session_store import SessionStore
from .comparison import Comparison
from .fleet_decisions import FollowedFleet
from .hidden_parts import has_hidden
from .journal_rules import RerunError, rules_of
from .lessons import FollowedLessons, FollowedStore
from .moved_sessions import Moves
from .recorded_step import RecordedStep, recorded_steps
from .taken_over_memory import FollowedMemory
from .unseen_memory import UnseenMemory


class Rerun:
    """
    Lead one session through its steps again.

    Attributes:
        found: How the recorded decisions compare with what follows.

    Args:
        moves: What other sessions left, for this one to go on with.
    """

    _store: FollowedStore

    def __init__(self, moves: Moves | None = None) -> None:
        self.found = Comparison()
        self._rules = self.found.rules
        self._moves = moves or Moves()
        self._fleet = FollowedFleet(self.found)
        self._unseen = UnseenMemory(self._rules)
        self._memory = FollowedMemory(self.found, self._unseen, self._moves)
        self._lessons = FollowedLessons(self._unseen)
        # Nothing, and no store, until it has begun.
        self._start: Mapping[str, Any] = {}
        self._time: float | str = 0.0
        self._flying: dict[int, PlannedCall] = {}
        # Calls that had been let through, and were refused before they ran.
        self._stopped: set[int] = set()

    @property
    def is_memory_hidden(self) -> bool:
        """True if the session went on with a memory that no log shows: how it stands is unknown."""
        return self._memory.is_hidden

    @property
    def flying(self) -> tuple[PlannedCall, ...]:
        """List the calls that have begun and not ended."""
        return tuple(self._flying.values())

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
            RerunError: A step cannot be followed. It names the line.
        """
        known = list(steps)
        # The beginning has no time of its own: that of the first step that has one is its.
        times = (says["at"] for _, says in known if "at" in says)
        self._time = next((time for time in times if not isinstance(time, str)), self._time)
        number = 0
        try:
            for step in recorded_steps(known):
                number = step.number
                while step.says["e"] == "restore" and self._moves.is_awaited(step.says):
                    yield False
                self._take(step, rules)
                yield True
        except RerunError as error:
            raise RerunError(f"line {number}: {error}") from error
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RerunError(f"line {number}: not a step ({type(error).__name__})") from error

    def store_at(self, moment: float) -> SessionStore | None:
        """
        Give the session as its steps have left it, at a moment after them; None before its beginning.

        What rests on code is not in it: conditions, and contracts and matchers that are functions.
        """
        if isinstance(self._time, str) or moment > self._time:
            self._time = moment
        return self._store if self._start else None

    def texts(self) -> dict[int, str]:
        """Give the contracts by their identity as they were written, which one built again is not always."""
        pairs = zip(self._rules.contracts, self._rules.texts, strict=False)
        return {id(contract): text for contract, text in pairs if contract is not None}

    def _clock(self) -> float:
        if isinstance(self._time, str):
            raise RuntimeError(self._time)  # noqa: TRY004 - what the session's clock did
        return self._time

    def _take(self, step: RecordedStep, rules: Mapping[str, Mapping[str, Any]]) -> None:
        says = step.says
        if not self._start and says["e"] != "start":
            raise RerunError("the session has no beginning here")
        self._time = says.get("at", self._time)
        match says["e"]:
            case "start":
                self._begin(says, rules_of(says, rules))
            case "replace":
                self._replace(rules_of(says, rules))
            case "reserve":
                self._reserve(step)
            case "fleet":
                call = self._begun(says, "the fleet was asked about a call")
                self._note_stop(step, follows=self._fleet.answer(step, call))
            case "recheck":
                self._recheck(step)
            case "commit" | "fail" | "abort" | "lose":
                self._end(step)
            case "learn":
                self._lessons.learn(says, self._store)
            case "state":
                self._store.memory.state.update(thawed(says["set"]))
            case "add":
                self._add(says)
            case "skip":
                self._store.step += 1
            case "restore":
                self._memory.restore(step, self._store, self._new_store)
                self._store.memory.state.load(thawed(says["state"]))
            case "left":
                self._memory.leave(says, self._store)
            case "halt":
                self._store.halt(PersonsHalt(says["why"]))
            case "lift":
                self._store.lift()
            case "end_run":
                self._compare_unmet(step, self._store.end_run(says["of_run"]))
            case "end":
                shut = SHUT[says["shut"]] if "shut" in says else None
                self._compare_unmet(step, self._store.end(shut=shut))
            case other:
                raise RerunError(f"unknown step {other!r:.40}")

    # What the session is, and by which contracts.

    def _begin(self, says: Mapping[str, Any], rules: Mapping[str, Any]) -> None:
        self._rules.put(rules)
        self._fleet.watching = says.get("mode") == "shadow"
        self._start = says
        self._store = self._new_store(thawed(says["state"]))
        self._store.memory.state.resume(says.get("written", {}))
        self._store.memory.digests.key = str(says["run"]).encode()

    def _new_store(self, state: Mapping[str, Any] | None = None) -> FollowedStore:
        start = self._start
        return FollowedStore(
            self._rule_set(),
            StateStore(state),
            self._clock,
            max_keys=start["max_keys"],
            halts=start["halts"],
        )

    def _rule_set(self) -> RuleSet:
        start = self._start
        alone, scope = bool(start.get("alone")), start.get("default_scope")
        return RuleSet(self._rules.known(), alone=alone, default_scope=scope)

    def _replace(self, rules: Mapping[str, Any]) -> None:
        store = self._store
        self._memory.replace()
        self._unseen.replace(rules, store.book.rules)
        store.replace(self._rule_set())

    def _add(self, says: Mapping[str, Any]) -> None:
        self._memory.replace()
        contract = self._rules.add(says["contract"], says["text"])
        if contract is not None:
            self._store.add(contract)

    # A call, from its beginning to its end.

    def _reserve(self, step: RecordedStep) -> None:
        store, says = self._store, step.says
        call = step.asked_call(store.book.plan(says["tool"]))
        self._memory.resume(store, says["step"])
        shut = store.shut
        force, refuse = bool(says.get("watched")), self._is_refused_by_word(step)
        breaches = store.reserve(call, force=force, refuse=refuse) or []
        if call.step != says["step"]:
            raise RerunError(f"step {call.step} of the session is missing")
        is_unknown = not step.shows_all() and self._hide(step, call)
        is_unknown = is_unknown or self._is_unknown(call)
        self.found.count_watched(call, breaches)
        self._compare(step, breaches, allowed=call.admitted, is_unknown=is_unknown)
        if is_unknown or (step.allowed and not call.admitted):
            # What was let through has halted nothing, and what is unknown only if the log says so.
            store.shut = shut
        if step.allowed:
            self._flying[call.step] = call if call.admitted else self._let_through(step, call)
            return
        if call.admitted:
            store.abort(call, ran=False)
        self._halt_as_recorded(step, breaches)

    def _is_refused_by_word(self, step: RecordedStep) -> bool:
        return not step.allowed and bool(step.says.get("code") or any(map(self._is_word, step.broken)))

    def _let_through(self, step: RecordedStep, refused: PlannedCall) -> PlannedCall:
        """Let a call through that would be refused, since that is the course that was recorded."""
        call = step.asked_call(refused.plan)
        self._store.step -= 1
        self._store.reserve(call, force=True)
        return call

    def _recheck(self, step: RecordedStep) -> None:
        store, call = self._store, self._begun(step.says, "a call was judged again")
        shut = store.shut
        breaches = store.recheck(call)
        self.found.count_watched(call, breaches)
        refused = blocked_by(breaches) or self._is_refused_by_word(step)
        allowed, is_unknown = call.watched or not refused, self._is_unknown(call)
        follows = self._compare(step, breaches, allowed=allowed, is_unknown=is_unknown)
        if is_unknown:
            store.shut = shut
        if not step.allowed:
            self._halt_as_recorded(step, breaches)
        self._note_stop(step, follows=follows)

    def _end(self, step: RecordedStep) -> None:
        store, says = self._store, step.says
        call = self._begun(says, "a call ended")
        del self._flying[call.step]
        is_abort = says["e"] == "abort"
        if call.step in self._stopped:
            self._stopped.discard(call.step)
            if not is_abort:
                self.found.differ(step, "ran", "refused before")
        self._fleet.end(step, call)
        is_hidden = self._take_what_ran(says, call)
        shut = store.shut
        over = self._settle(step, call) or []
        is_unknown = is_hidden or self._is_unknown(call)
        if is_unknown and not is_abort:
            store.shut = shut
        if not is_abort and not call.watched:
            self._halt_as_recorded(step, over, refused=False)
        if call.question is None and (over or "broken" in says):
            self._compare(step, over, is_unknown=is_unknown)

    def _take_what_ran(self, says: Mapping[str, Any], call: PlannedCall) -> bool:
        """Note what ran and was measured; True if it is hidden and that matters to a contract."""
        is_hidden = False
        if "final" in says:
            call.final = thawed(says["final"])
            if has_hidden(says["final"]):
                is_hidden = self._unseen.hide(call, says["final"], says.get("keys", ()))
        elif says.get("shown"):
            is_hidden = self._unseen.hide(call, None, ())
        if "measured" in says:
            call.measured = thawed(says["measured"])
        call.special = call.special or call.final is not None or call.measured is not None
        ran = call.as_ran()
        if ran is not None:
            ran.memo = dict(says.get("keys", {}))
        return is_hidden

    def _settle(self, step: RecordedStep, call: PlannedCall) -> list[Breach] | None:
        store, says = self._store, step.says
        match says["e"]:
            case "commit":
                return store.commit(call, learnt=self._lessons.of_end(call, says, store))
            case "lose":
                return store.lose(call)
            case "abort" if "broken" in says:
                store.take_back(call, [Breach(contract=contract) for contract in self._broken(step)])
                return None
        return store.abort(call, ran=says["e"] == "fail")

    def _begun(self, says: Mapping[str, Any], what: str) -> PlannedCall:
        call = self._flying.get(says["step"])
        if call is None:
            raise RerunError(f"{what} that never began")
        return call

    def _note_stop(self, step: RecordedStep, *, follows: bool) -> None:
        """Note whether a call under way was refused, if that follows: it runs if it was allowed last."""
        if follows and not step.allowed:
            self._stopped.add(step.says["step"])
        else:
            self._stopped.discard(step.says["step"])

    def _halt_as_recorded(self, step: RecordedStep, found: Sequence[Breach], *, refused: bool = True) -> None:
        """Let what the log says to be broken halt the session, also where that cannot be derived."""
        # A contract that is no more has no place; several may be called the same.
        same = [breach for breach in found if self._rules.name(breach) in step.broken]
        named = [Breach(contract=contract) for contract in self._broken(step)]
        by_code = self._rules.has_halting_code(step.broken)
        self._store.halt_if_broken([*named, *same], refused=refused, by_code=by_code)

    def _broken(self, step: RecordedStep) -> list[Template]:
        """List the contracts that a step says to be broken, as far as they have a place."""
        return self._rules.known([name for name in step.broken if isinstance(name, int)])

    # What is compared, and what cannot be.

    def _compare(
        self, step: RecordedStep, breaches: Sequence[Breach], *, allowed: bool = True, is_unknown: bool
    ) -> bool:
        """Compare one decision, unless it rests on something unknown; False if another one follows."""
        if is_unknown:
            self.found.not_derivable += 1
            return True
        return self.found.compare(step, breaches, allowed=allowed, is_word=self._is_word)

    def _compare_unmet(self, step: RecordedStep, unmet: Sequence[Breach]) -> None:
        is_unknown = self._unseen.is_about_end() or self.is_memory_hidden
        self._compare(step, unmet, is_unknown=is_unknown)

    def _is_unknown(self, call: PlannedCall) -> bool:
        return self._unseen.is_about(call) or self.is_memory_hidden

    def _hide(self, step: RecordedStep, call: PlannedCall) -> bool:
        """Note hidden arguments of a call; True if it matters to a contract what they are."""
        seen, keys = None if step.is_hidden else step.args, step.says.get("keys", {})
        self._fleet.hide(call, seen, keys)
        return self._unseen.hide(call, seen, keys)

    def _is_word(self, name: int | str) -> bool:
        """Tell whether a recorded breach is taken at its word: that of code, or of an answer not recorded."""
        is_elsewhere = self._rules.is_of_fleet(name) and not self._store.book.rules.alone
        return self._rules.is_code(name) or is_elsewhere
