"""
Decisions, derived again from the steps of a session and its rules.

A session's memory is built anew and led through the same events in the same order. What was decided is
compared with what follows; where the two differ, the course that was recorded is followed, so that one
difference is told once.

Not everything can be derived. What rests on code - conditions, contracts and matchers that are functions - is
taken from the record. What rests on arguments that were redacted, cut, or came with no end is not derivable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._plain.freezing import thawed
from ..contracts.base import ENDED, HALTED, SessionRule
from ..contracts.identity import forms_hash
from ..contracts.rebuilding import rebuilt
from ..contracts.rules import Cell
from ..contracts.template import Template
from ..match.keys import About
from ..memory.cell import Mover
from ..memory.deferred import read_deferred
from ..memory.guard import Breach
from ..memory.state import StateStore
from .bound_contract import BoundContract
from .hidden import has_hidden, is_as_seen, learning_movers, not_shown, reading_hidden, seen_in
from .planned_call import PlannedCall
from .rule_set import RuleSet
from .snapshot import load_memory
from .store import SessionStore

__all__ = ("Divergence", "Rerun", "RerunError")

_SHUT = {rule.spec: rule for rule in (ENDED, HALTED)}


class RerunError(ValueError):
    """Steps cannot be followed: one is missing, or is none. What comes after cannot be derived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """
    A decision that does not follow from the rules.

    Attributes:
        number: Position of the step in the log.
        step: Position of the call in its session.
        tool: The tool.
        recorded: What was decided, in words.
        derived: What follows.
    """

    number: int
    step: int | None
    tool: str | None
    recorded: str
    derived: str


class _FollowedStore(SessionStore):
    """Learn what others have read."""

    __slots__ = ()

    def learn_known(self, call: PlannedCall, found: Mapping[str, Any]) -> None:
        self._learn_again(call, call, found, known={})


@dataclass(slots=True)
class Rerun:
    """
    Lead one session through its steps again.

    Attributes:
        derived: How many decisions were derived again, and compared.
        on_code: How many of them rest on code as well.
        not_derivable: How many could not be derived.
        differences: Those that differ.
    """

    derived: int = 0
    on_code: int = 0
    not_derivable: int = 0
    differences: list[Divergence] = field(default_factory=list)
    _store: _FollowedStore | None = None
    _contracts: list[Template | None] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _past: set[str] = field(default_factory=set)
    _time: float | str = 0.0
    _flying: dict[int, PlannedCall] = field(default_factory=dict)
    _tainted: set[int] = field(default_factory=set)
    # By the step of the call whose result or arguments the log does not show.
    _unseen: dict[int, set[int]] = field(default_factory=dict)
    # Only calls of whose results something was learnt may be heard of again.
    _learned: dict[int, PlannedCall] = field(default_factory=dict)

    def follow(
        self, steps: Iterable[tuple[int, Mapping[str, Any]]], rules: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[None]:
        """
        Follow the steps of one session in their order.

        Args:
            steps: Their positions in the log, and what they say.
            rules: The canonical forms and the texts of contracts by their hash, as the log has them.

        Yields:
            None after each step, so that whoever asks can show how far it is.

        Raises:
            RerunError: A step cannot be followed.
        """
        known = list(steps)
        late: dict[Any, Any] = {step.get("step"): step["args"] for _, step in known if "args" in step}
        unseen: set[Any] = {step.get("step") for _, step in known if step.get("shown")}
        number = 0
        try:
            for number, step in known:
                if step["e"] == "start":
                    self._begin(step, _rules_of(number, step, rules))
                elif step["e"] == "replace":
                    self._replace(_rules_of(number, step, rules))
                elif self._store is None:
                    raise RerunError(f"line {number}: the session has no beginning here")
                else:
                    self._take(number, step, late, unseen)
                yield
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
        pairs = zip(self._contracts, self._texts, strict=False)
        return {id(contract): text for contract, text in pairs if contract is not None}

    @property
    def flying(self) -> int:
        """Count the calls that have begun and not ended."""
        return len(self._flying)

    def _begin(self, step: Mapping[str, Any], rules: Mapping[str, Any]) -> None:
        self._contracts = [rebuilt(form) for form in rules["contracts"]]
        self._texts = list(rules["texts"])
        contracts = [contract for contract in self._contracts if contract is not None]
        self._store = _FollowedStore(
            RuleSet(contracts, alone=bool(step.get("alone")), default_scope=step.get("default_scope")),
            StateStore(thawed(step["state"])),
            self._clock,
            max_keys=step["max_keys"],
            halts=step["halts"],
        )
        self._store.memory.digests.key = str(step["run"]).encode()

    def _replace(self, rules: Mapping[str, Any]) -> None:
        if self._store is None:
            raise RerunError("the session has no beginning here")
        self._past.update(self._texts)
        unknown = self._memory_of(self._tainted)
        unseen = {step: self._memory_of(places) for step, places in self._unseen.items()}
        self._contracts = [rebuilt(form) for form in rules["contracts"]]
        self._texts = list(rules["texts"])
        contracts = [contract for contract in self._contracts if contract is not None]
        like = self._rules
        self._store.replace(RuleSet(contracts, alone=like.alone, default_scope=like.default_scope))
        self._tainted = self._places_with(unknown)
        self._unseen = {step: self._places_with(memory) for step, memory in unseen.items()}

    def _places_with(self, memory: frozenset[Cell]) -> set[int]:
        places = range(len(self._contracts)) if memory else ()
        return {place for place in places if not memory.isdisjoint(self._memory_of({place}))}

    def _memory_of(self, places: set[int]) -> frozenset[Cell]:
        contracts = [contract for place in places if (contract := self._contracts[place]) is not None]
        like = self._rules
        return RuleSet(contracts, alone=like.alone, default_scope=like.default_scope).cells()

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
            case "commit" | "fail" | "abort" | "lose" as end:
                self._end(number, step, end)
            case "learn":
                self._learn(number, step)
            case "recheck":
                self._recheck(number, step)
            case "state":
                self._store.memory.state.update(thawed(step["set"]))
            case "add":
                self._add(step)
            case "skip":
                self._store.step += 1
            case "restore":
                self._restore(number, step)
            case "end_run":
                unmet = self._store.end_run(step["of_run"])
                self._compare(number, step, True, True, unmet, set())
            case "end":
                unmet = self._store.end(shut=_SHUT[step["shut"]] if "shut" in step else None)
                self._compare(number, step, True, True, unmet, set())
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
        by_code = not allowed and (step.get("code") or any(map(self._is_code, step.get("broken", ()))))
        breaches = store.reserve(call, force=bool(step.get("watched")), refuse=bool(by_code)) or []
        if call.step != step["step"]:
            raise RerunError(f"line {number}: step {call.step} of the session is missing")
        unknown: set[int] = set()
        if hidden or (not plain and (given is None or has_hidden(given))):
            unknown = self._reading_arguments(call, None if hidden else given)
            self._tainted |= unknown
        self._compare(number, step, allowed, call.admitted, breaches, unknown | self._tainted_for(call))
        if call.admitted is not allowed:
            call = self._follow_record(call, allowed)
        if allowed:
            self._flying[call.step] = call

    def _follow_record(self, call: PlannedCall, allowed: bool) -> PlannedCall:
        assert self._store is not None
        if not allowed:
            self._store.abort(call, ran=False)
            return call
        self._store.step -= 1
        again = PlannedCall(call.tool, call.args, call.plan)
        again.deferred, again.early, again.special = call.deferred, call.early, call.special
        again.about = call.about
        self._store.reserve(again, force=True)
        return again

    def _end(self, number: int, step: Mapping[str, Any], end: str) -> None:
        assert self._store is not None
        call = self._flying.pop(step["step"], None)
        if call is None:
            raise RerunError(f"line {number}: a call ended that never began")
        unknown: set[int] = set()
        if "final" in step:
            call.final = thawed(step["final"])
            if has_hidden(step["final"]):
                unknown = self._reading_arguments(call, step["final"])
                self._tainted |= unknown
        elif step.get("shown"):
            unknown = self._reading_arguments(call, None)
            self._tainted |= unknown
        if "measured" in step:
            call.measured = thawed(step["measured"])
        call.special = call.special or call.final is not None or call.measured is not None
        if end == "commit":
            self._unseen[call.step] = self._learning(call, step)
            if call.plan.learns:
                self._learned[call.step] = call
            over = self._store.commit(call, learnt=self._learnt(call, step))
        elif end == "lose":
            over = self._store.lose(call)
        elif end == "abort" and "broken" in step:
            named = [self._contracts[name] for name in step["broken"] if isinstance(name, int)]
            refused_by = [Breach(contract=contract) for contract in named if contract is not None]
            self._store.take_back(call, refused_by)
            over = None
        else:
            over = self._store.abort(call, ran=end == "fail")
        if over or "broken" in step:
            self._compare(number, step, True, True, over or [], unknown | self._tainted_for(call))

    def _recheck(self, number: int, step: Mapping[str, Any]) -> None:
        assert self._store is not None
        call = self._flying.get(step["step"])
        if call is None:
            raise RerunError(f"line {number}: a call was judged again that never began")
        breaches = self._store.recheck(call)
        derived = call.watched or not any(breach.blocks() for breach in breaches)
        self._compare(number, step, bool(step["allowed"]), derived, breaches, self._tainted_for(call))

    def _learnt(self, call: PlannedCall, step: Mapping[str, Any]) -> dict[str, Any]:
        """Give what a log says was learnt from a call, with None for what it does not say."""
        learnt: dict[str, Any] = thawed(seen_in(step.get("learnt", {})))
        if step.get("shown") or has_hidden(call.args if call.final is None else call.final):
            learns = learning_movers(call)
            learnt |= dict.fromkeys(name for name, source in learns.items() if source == "arguments")
        return learnt

    def _learn(self, number: int, step: Mapping[str, Any]) -> None:
        assert self._store is not None
        call = self._learned.get(step["step"])
        if call is None:
            raise RerunError(f"line {number}: something was learnt from a call that did not succeed")
        learnt = step["learnt"]
        if step.get("whole") and not has_hidden(learnt):
            # All that the end of the call did not show.
            self._unseen.pop(call.step, None)
        elif has_hidden(learnt):
            self._tainted |= self._remembering(learning_movers(call).keys())
        self._store.learn_known(call, thawed(seen_in(learnt)))

    def _add(self, step: Mapping[str, Any]) -> None:
        assert self._store is not None
        contract = rebuilt(step["contract"])
        self._contracts.append(contract)
        self._texts.append(step["text"])
        if contract is not None:
            self._store.add(contract)

    def _restore(self, number: int, step: Mapping[str, Any]) -> None:
        assert self._store is not None
        if step["memory"] is None or None in self._contracts:
            raise RerunError(f"line {number}: what the session remembered is not in the log")
        load_memory(self._store, step["memory"])
        self._store.memory.state.load(thawed(step["state"]))

    def _compare(
        self,
        number: int,
        step: Mapping[str, Any],
        allowed: bool,
        derived: bool,
        breaches: list[Breach],
        unknown: set[int],
    ) -> None:
        recorded = [name for name in step.get("broken", ()) if not self._is_code(name)]
        found = [self._name(breach) for breach in breaches]
        rests_on_code = bool(step.get("code")) or len(recorded) < len(step.get("broken", ()))
        if unknown:
            self.not_derivable += 1
            return
        self.derived += 1
        self.on_code += rests_on_code
        if allowed is derived and set(found) == set(recorded):
            return
        self.differences.append(
            Divergence(
                number=number,
                step=step.get("step"),
                tool=step.get("tool"),
                recorded=self._words(allowed, recorded),
                derived=self._words(derived, found),
            )
        )

    def _words(self, allowed: bool, names: list[int | str]) -> str:
        broken = ", ".join(self._texts[name] if isinstance(name, int) else name for name in names)
        return ("allowed" if allowed else "refused") + (f", breaks {broken}" if broken else "")

    def _name(self, breach: Breach) -> int | str:
        if isinstance(breach.contract, SessionRule):
            return breach.contract.spec
        places = (place for place, known in enumerate(self._contracts) if known is breach.contract)
        return next(places, breach.contract.spec)

    def _is_code(self, name: int | str) -> bool:
        if isinstance(name, str):
            return name not in _SHUT and name not in self._past
        # What a shared store said is taken from the record, as what code said is.
        contract = self._contracts[name]
        return contract is None or (contract.reach.is_fleet and not self._rules.alone)

    @property
    def _rules(self) -> RuleSet:
        assert self._store is not None
        return self._store.book.rules

    def _reading_arguments(self, call: PlannedCall, given: Any) -> set[int]:
        """Find the contracts about a call to which it matters what stands in the hidden arguments."""
        asked = reading_hidden(call, given)
        return {
            place
            for place, contract in enumerate(self._contracts)
            if contract is not None and id(contract) in asked
        }

    def _learning(self, call: PlannedCall, step: Mapping[str, Any]) -> set[int]:
        """Find the contracts that have learnt from a call what the log does not show."""
        hidden = not_shown(call, step)
        return self._remembering(hidden) if hidden else set()

    def _remembering(self, names: Collection[str | None]) -> set[int]:
        """Find the contracts with memory that learns under one of these names."""
        assert self._store is not None
        book = self._store.book
        return {
            place
            for place, contract in enumerate(self._contracts)
            if contract is not None
            and any(mover.learns in names for mover in _movers(book.bound_to(contract)))
        }

    def _tainted_for(self, call: PlannedCall) -> set[int]:
        tainted = self._tainted.union(*self._unseen.values())
        if not tainted:
            return set()
        about = {id(guard.contract) for guard in call.plan.guards}
        about |= {id(entry.contract) for entry, _ in call.plan.asked}
        return {place for place in tainted if id(self._contracts[place]) in about}


def _rules_of(
    number: int, step: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    known = rules.get(step["rules"]) if isinstance(step["rules"], str) else None
    if known is None:
        raise RerunError(f"line {number}: the rules of the session are not in the log")
    if forms_hash(known["contracts"]) != step["rules"]:
        raise RerunError(f"line {number}: the rules of the session are not those that their hash is of")
    return known


def _movers(bound: BoundContract) -> Iterator[Mover]:
    for rule in bound.every_rule():
        yield from rule.movers
    yield from bound.watched()
