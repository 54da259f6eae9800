"""
A session's memory that keeps a journal: every event that moves it, in the order of its lock.

Rows of a trace cannot say what happened: a call that was let through while another was under way looks, once
both have ended, like one that came after it. Events can: a reserve, and later what became of it. From the
events and the rules every decision follows again, see `rerun`.

An event is noted under the lock, as a reference only. It is turned into data and handed on after the lock is
released, in the order in which it was noted, before the call that caused it goes on.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from ...contracts.base import PersonsHalt, SessionRule, TemporalContract
from ...contracts.identity import forms_hash, meaning_of, rules_hash
from ...contracts.rules import Cell
from ...match.keys import Key
from ...memory.clock import Clock
from ...memory.guard import Breach, blocked_by
from ...memory.state import StateStore
from ..fleet.fleet_answer import answer_form
from ..plan.planned_call import PlannedCall, seen_of
from ..plan.rule_set import RuleSet, shared_rules
from ..plan.tool_plan import ArgumentRules, Plan
from ..store.session_store import SessionStore
from ..store.settling_as_ran import End
from .step_forms import asked_form, ended_form, ended_late_form, keys_form, learnt_form, reserved_form

_EVENTS: dict[End, str] = {"commit": "commit", "fail": "fail", "undo": "abort", "lose": "lose"}


class StepSink(Protocol):
    """
    Keep the steps of a session. Neither method raises.

    One with ``warn_of_hidden`` is told of the contracts of a session when that is made, before any of them is
    written. One that says ``late_arguments`` gets the arguments of a call with its end and not with its
    beginning: somebody may yet say that they must not be seen. One that says ``redacts`` hides parts of them:
    it gets the keys of a call whose spellings are folded as well, of which it has to make markers.
    """

    def record_step(self, step: Mapping[str, Any], /) -> Any: ...

    def record_rules(self, rules: Mapping[str, Any], /) -> Any: ...


class _Noted(NamedTuple):
    """Hold what is noted of one event under the lock."""

    event: str
    call: PlannedCall | None = None
    breaches: list[Breach] | None = None
    at: float | str | None = None
    more: Mapping[str, Any] = {}
    order: Mapping[int, int] = {}
    rules: Mapping[str, Any] | None = None


P = ParamSpec("P")
R = TypeVar("R")


def _then_written(
    method: Callable[Concatenate[SessionStore, P], R],
) -> Callable[Concatenate[JournaledStore, P], R]:
    """Let a method of the parent do its work, and write what was noted of it."""

    @functools.wraps(method)
    def writing(self: JournaledStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        done = method(self, *args, **kwargs)
        self._write()
        return done

    return writing


class JournaledStore(SessionStore):
    """
    Judge and settle calls as `SessionStore` does, and tell a sink of each event.

    Args:
        sink: Gets the steps.
        start: What a reader has to know of the session besides its rules and its state.
    """

    __slots__ = (
        "_first",
        "_folded",
        "_late",
        "_left",
        "_noted",
        "_places",
        "_redacts",
        "_run",
        "_sink",
        "_start",
        "_writing",
    )

    # An end is written before whoever called goes on.
    _lets_land = False

    def __init__(
        self,
        rules: RuleSet,
        state: StateStore,
        clock: Clock | None,
        *,
        sink: StepSink,
        start: Mapping[str, Any],
        max_keys: int,
        known: Iterable[str] | None,
        halts: bool,
    ) -> None:
        super().__init__(rules, state, clock, max_keys=max_keys, known=known, halts=halts)
        self._sink = sink
        self._run = os.urandom(6).hex()
        # So that whoever reads the journal can follow it.
        self.memory.digests.key = self._run.encode()
        self._left = ""
        self._noted: deque[_Noted] = deque()
        self._writing = threading.Lock()
        scope: dict[str, Any] = {} if rules.default_scope is None else {"default_scope": rules.default_scope}
        scope |= {"alone": True} if rules.alone else {}
        initial = {**scope, "state": state.view().snapshot(), "max_keys": max_keys, "halts": halts}
        if written := state.written():
            initial["written"] = written
        self._start: dict[str, Any] | None = {**initial, **start}
        self._first, self._places = _filed(self.book.rules)
        self._late = bool(getattr(sink, "late_arguments", False))
        self._redacts = bool(getattr(sink, "redacts", False))
        self._folded = _folded_keys(self.book.rules) if self._redacts else ()
        state.tell(self._note_state)
        warn = getattr(sink, "warn_of_hidden", None)
        if warn is not None:
            warn(self._first)

    reserve = _then_written(SessionStore.reserve)
    recheck = _then_written(SessionStore.recheck)
    would = _then_written(SessionStore.would)  # of calls that were dropped meanwhile
    abort = _then_written(SessionStore.abort)
    lose = _then_written(SessionStore.lose)
    take_back = _then_written(SessionStore.take_back)
    settle = _then_written(SessionStore.settle)
    replace = _then_written(SessionStore.replace)
    end_run = _then_written(SessionStore.end_run)
    halt = _then_written(SessionStore.halt)
    lift = _then_written(SessionStore.lift)

    def commit(
        self,
        call: PlannedCall,
        result: Any = None,
        at: float | None = None,
        learnt: Mapping[str, Any] | None = None,
    ) -> list[Breach] | None:
        # Not the short way of the parent, which settles what is not special without `_end`.
        if call.plan.learns:
            call.learn(result, learnt)
            if call.conceal is not None:
                # What may not be seen of a result is not read out of what was learnt either.
                call.concealed = call.from_result(call.lessons(seen_of(call, result))) != call.from_result(
                    call.learnt
                )
        over = self._settle(call, "commit", at)
        self._write()
        return over

    def hear(self, call: PlannedCall, breaches: list[Breach]) -> None:
        if call.question.is_asked:
            allowed = call.watched or not blocked_by(breaches)
            more = {"allowed": allowed, **answer_form(call, self._places)}
            if call.question.again:
                more["again"] = True
            self._noted.append(_Noted("fleet", call, breaches, more=more, order=self._places))
            self._write()
        super().hear(call, breaches)

    def skip(self, call: PlannedCall) -> None:
        super().skip(call)
        self._noted.append(_Noted("skip", call))

    def end(self, *, at: float | None = None, shut: SessionRule | None = None) -> list[Breach]:
        unmet = super().end(at=at, shut=shut)
        with self.lock:
            more = {} if shut is None else {"shut": shut.spec}
            self._noted.append(_Noted("end", None, unmet, self._time(), more, self._places))
        self._write()
        return unmet

    @property
    def journal(self) -> str:
        return self._run

    def note_restored(
        self,
        memory: Mapping[str, Any],
        state: Mapping[str, Any],
        *,
        mark: str | None = None,
        left_by: str | None = None,
    ) -> None:
        told = {name: value for name, value in (("mark", mark), ("left_by", left_by)) if value is not None}
        # Where its memory is hidden, the time stands for itself: what was left under way counts from then.
        at = memory["time"] if mark is not None else None
        self._noted.append(_Noted("restore", at=at, more={"memory": memory, "state": state, **told}))

    def note_left(self, mark: str) -> None:
        if mark != self._left:
            self._left = mark
            self._noted.append(_Noted("left", more={"mark": mark}))

    def tell(self) -> None:
        self._write()

    def _learn_again(
        self, call: PlannedCall, seen: PlannedCall, found: Mapping[str, Any], known: Mapping[str, Any]
    ) -> None:
        super()._learn_again(call, seen, found, known)
        was_hidden = call.concealed or call.shown is not None
        if found != known or was_hidden:
            # What may be seen is told now. If that is all, nothing of the call is hidden any more.
            whole = {"whole": True} if found == known else {}
            self._noted.append(_Noted("learn", call, more={"learnt": dict(found), **whole}))
            self._write()

    # Called with the lock held.

    def _add(self, contract: TemporalContract) -> None:
        super()._add(contract)
        self._places = {**self._places, id(contract): len(self._places)}
        self._folded = _folded_keys(self.book.rules) if self._redacts else ()
        self._noted.append(_Noted("add", more={"contract": meaning_of(contract), "text": contract.spec}))

    def _let_through(self, plan: Plan, call: PlannedCall, anyway: bool) -> bool:
        is_through = super()._let_through(plan, call, anyway)
        # One that something objects to is noted with the objections.
        if is_through and not anyway:
            self._noted.append(_Noted("reserve", call, None, self._time() if plan.timeline else None))
        return is_through

    def _recheck(self, call: PlannedCall, again: ArgumentRules) -> list[Breach]:
        breaches = super()._recheck(call, again)
        more = {"allowed": call.watched or not blocked_by(breaches)}
        self._noted.append(_Noted("recheck", call, breaches, self._time(), more, self._places))
        return breaches

    def _object(self, plan: Plan, call: PlannedCall, force: bool, refuse: object) -> list[Breach]:
        breaches = super()._object(plan, call, force, refuse)
        more = {"code": True} if refuse else {}
        at = self._time() if plan.timeline else None
        self._noted.append(_Noted("reserve", call, breaches, at, more, self._places))
        return breaches

    def _end(self, call: PlannedCall, ran: PlannedCall | None, end: End) -> list[Breach] | None:
        over = super()._end(call, ran, end)
        # What others may go on with by the same mark is so after this step as well.
        self._left = ""
        at = self._time() if call.plan.later or (ran is not None and call.plan.timeline) else None
        self._noted.append(_Noted(_EVENTS[end], call, over, at, reserved_form(call), order=self._places))
        return over

    def _refused_elsewhere(self, call: PlannedCall, breaches: list[Breach]) -> None:
        super()._end(call, None, "undo")
        self._left = ""
        at = self._time() if call.plan.later else None
        self._noted.append(_Noted("abort", call, breaches, at, order=self._places))

    def _halted(self, rule: PersonsHalt | None) -> None:
        self._noted.append(_Noted("lift") if rule is None else _Noted("halt", more={"why": rule.why}))

    def _ended_run(self, run: str, unmet: list[Breach]) -> None:
        self._noted.append(
            _Noted("end_run", breaches=unmet, at=self._time(), more={"of_run": run}, order=self._places)
        )

    def _replace(self, rules: RuleSet) -> None:
        before = self.contracts
        super()._replace(rules)
        told, self._places = _filed(rules)
        self._folded = _folded_keys(rules) if self._redacts else ()
        self._noted.append(_Noted("replace", rules=told, more={"before": rules_hash(before)}))

    def _time(self) -> float | str | None:
        return self.memory.clock_fault or self.memory.now

    def _note_state(self, values: Mapping[str, Any]) -> None:
        at = max((self.memory.state.written_at(key) or 0.0 for key in values), default=0.0)
        self._noted.append(_Noted("state", at=at or None, more={"set": dict(values)}))

    # The rest is called without it.

    def _write(self) -> None:
        with self._writing:
            if self._start is not None:
                start, self._start = self._start, None
                # Those that the session began with; one that was added since has an event of its own.
                rules = self._first["hash"]
                self._sink.record_rules(self._first)
                self._sink.record_step({"e": "start", "run": self._run, "rules": rules, **start})
            while self._noted:
                self._sink.record_step(self._step(self._noted.popleft()))

    def _step(self, noted: _Noted) -> dict[str, Any]:
        step: dict[str, Any] = {"e": noted.event, "run": self._run, **noted.more}
        call = noted.call
        if noted.rules is not None:
            self._sink.record_rules(noted.rules)
            step["rules"] = noted.rules["hash"]
        if call is not None:
            step["step"] = call.step
            step["tool"] = call.tool
            if noted.event == "reserve":
                step.update(asked_form(call, late=self._late))
                step.update(keys_form(call, self._folded))
            elif noted.event not in ("learn", "recheck", "fleet"):
                step.update(ended_late_form(noted.event, call) if self._late else ended_form(call))
            if noted.event == "commit":
                step.update(learnt_form(call, concealed=call.concealed))
            if call.ran is not None and "final" in step:
                step.update(keys_form(call.ran, self._folded))
        if noted.at is not None:
            step["at"] = noted.at
        if noted.breaches:
            # One that was replaced while the call was under way has no place any more.
            step["broken"] = [
                noted.order.get(id(breach.contract), breach.contract.spec) for breach in noted.breaches
            ]
        return step


def in_log_order(contracts: Iterable[TemporalContract]) -> list[TemporalContract]:
    """Put contracts in the order in which a log has them, whatever the order was in which they were given."""
    # Sets of rules that differ in their order only have one hash, so one order is written down.
    return sorted(contracts, key=lambda contract: json.dumps(meaning_of(contract), sort_keys=True))


def filed_rules(contracts: Iterable[TemporalContract]) -> Mapping[str, Any]:
    """Give a set of contracts in the form in which a log has them."""
    return _filed(shared_rules(tuple(contracts))).told


class _Filed(NamedTuple):
    """Hold a set of contracts as a log has it, and the place of each there."""

    told: Mapping[str, Any]
    places: Mapping[int, int]


@functools.lru_cache(maxsize=16)
def _folded_keys(rules: RuleSet) -> tuple[Key, ...]:
    """List the keys of which several spellings are one."""
    elsewhere = (filed.rule(hits) for filed in rules.fleet for hits in filed.combinations())
    cells: set[Cell | None] = set()
    for rule in elsewhere:
        cells.update(guard.cell for guard in rule.guards)
        cells.update(move.cell for move in rule.moves)
    keys = {cell.key for cell in (*rules.cells(), *cells) if cell is not None and cell.key is not None}
    return tuple(sorted((key for key in keys if key.fold is not None), key=lambda key: key.text))


@functools.lru_cache(maxsize=16)
def _filed(rules: RuleSet) -> _Filed:
    several = in_log_order(rules.contracts)
    forms = list(map(meaning_of, several))
    told = {
        "hash": forms_hash(forms),
        "contracts": forms,
        "texts": [contract.spec for contract in several],
    }
    return _Filed(told, {id(contract): place for place, contract in enumerate(several)})
