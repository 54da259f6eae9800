"""
Our own engine, one call after another, from any state to the next.

A state is what the cells of the engine remember, see `cell_view`. To try a call, the cells are set to a
state, the store of the engine judges and settles the call, and the cells are read again. So nothing that is
found here can be another reading of a contract than the one that is in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...._plain.calendar import Per
from ...contracts.base import HALTED
from ...contracts.declaration import Declaration
from ...engine.plan.planned_call import PlannedCall
from ...engine.plan.rule_set import RuleSet
from ...engine.store.session_store import SessionStore
from ...match.keys import About
from ...memory.cell import LiveCell
from ...memory.guard import Breach, blocked_by
from ...memory.keyed import Keyed
from ...memory.state import StateStore
from ..calls.alphabet import Alphabet, unit_of
from ..calls.call_kind import CallKind, with_values
from ..conditions.followed import freed
from ..rules.analysable import guards_of
from ..rules.found_values import alike_sources, result_with, slots_of_cells
from ..rules.subject import subject_of
from .alike_values import AlikeValues
from .entries import entries_of
from .memory_view import views_of
from .passing import Windows
from .state import (
    Answer,
    Outcome,
    State,
    Transition,
    Try,
    aged_flights,
    hashable,
    with_entry,
    with_flight,
    without_flight,
)

__all__ = ("Machine",)

_NOW = 0.0
_STEP = 100_000
# With a period of the calendar, those end that it is made of.
_ENDS_WITH: dict[Per, frozenset[Per]] = {
    "hour": frozenset({"hour"}),
    "day": frozenset({"hour", "day"}),
    "week": frozenset({"hour", "day", "week"}),
    "month": frozenset({"hour", "day", "month"}),
}


@dataclass(slots=True)
class _Letter:
    args: dict[str, Any]
    plan: Any
    extra: Any
    result: Any


class Machine:
    """
    Try calls in any state of a session that watches some contracts.

    Args:
        contracts: The contracts. They are copied.
        alphabet: The calls.
        state: The state that a session begins with.

    Attributes:
        entries: The entries of the state that contracts look at.
        values: The values that its states know.
        windows: The windows of what it remembers.
    """

    def __init__(
        self,
        contracts: Sequence[Declaration],
        alphabet: Alphabet,
        state: Mapping[str, Any],
    ) -> None:
        own = [freed(contract) for contract in contracts]
        self._index = {id(contract): place for place, contract in enumerate(own)}
        self._store = SessionStore(RuleSet(own, alone=True), StateStore(state), lambda: _NOW, max_keys=10_000)
        self._store.memory.timeline.advance(_NOW)
        self._views = views_of(own, self._store.memory, unit_of(own))
        slots = slots_of_cells(own)
        for view in self._views:
            if view.cell in slots:
                view.texts = alphabet.found[alphabet.groups[slots[view.cell]]]
        places = {view.cell: place for place, view in enumerate(self._views)}
        self._alike = [[places[cell] for cell in cells] for cells in alike_sources(own) if len(cells) > 1]
        self._near = self._near_places()
        cells = [{guard.cell for guard in guards_of(contract)} for contract in own]
        self._compared = [frozenset(p for p, v in enumerate(self._views) if v.cell in of) for of in cells]
        # What is overdue is told once, to whatever call comes next.
        self._told = [p for p, view in enumerate(self._views) if view.cell.kind == "pending"]
        # The state that the cells are in, but for those at some places that a call has moved.
        self._loaded: State | None = None
        self._moved_since: Collection[int] = ()
        self._alphabet = alphabet
        self._letters: dict[tuple[CallKind, tuple[tuple[str, str], ...]], _Letter] = {}
        self.entries = entries_of(own, alphabet)
        self._initial = dict(state)
        self._about = About(subject=subject_of(own))
        self._blank = tuple(hashable(view.freeze()) for view in self._views)
        flights = {view.cell.within for view in self._views if view.cell.kind == "flights"}
        lasting = sorted(window for window in flights if window is not None)
        self._oldest_flight = max((window + 1 for window in lasting), default=0.0)
        self.windows = Windows(self._views, self.entries.windows, lasting)
        self.values = AlikeValues(self._views, self.entries.groups, alphabet)
        self._halts = any(contract.on_violation == "halt" for contract in own)
        self._late = any(guard.kind == "overdue" for contract in own for guard in guards_of(contract))
        self._ends = any(contract.at_end for contract in own)
        # Whether a contract is asked depends on more than the arguments.
        self._asks_anew = any(c.is_asked_when and c.when is not None and c.when.reads.changing for c in own)

    def first(self) -> State:
        """Give the state of a new session."""
        written = [(name, value) for name, value in self._initial.items() if name in self.entries.values]
        entries = tuple((name, hashable(value), 0.0) for name, value in sorted(written))
        return State(self._blank, entries)

    def answer(self, state: State, step: Transition) -> Answer:
        """Tell what a step comes to in a state."""
        tried, ends = self._answer(state, step)
        if state.zone is None:
            return tried, ends
        passing = step.passing
        zone = state.zone if passing is None else self.windows.zone_after(state, passing)
        followed = {outcome: self.windows.in_zone(after, zone) for outcome, after in ends.items()}
        return tried, {outcome: after for outcome, after in followed.items() if after is not None}

    def _answer(self, state: State, step: Transition) -> Answer:
        if step.kind is None:
            return None, {"ok": self._moved(state, step)}
        if step.ended:
            return None, {"ok": without_flight(state, step.kind, step.values)}
        letter = self._letter(step.kind, step.values)
        tried, call = self._judge(state, step.kind.tool, letter)
        if not tried.admitted:
            return tried, {"refused": self._read(state, call)} if self._halts or self._late else {}
        self._store.commit(call, result=letter.result)
        succeeded = self._read(state, call)
        _, call = self._judge(state, step.kind.tool, letter)
        self._store.abort(call, ran=True)
        ends: dict[Outcome, State] = {"ok": succeeded, "failed": self._read(state, call)}
        if self._alphabet.refunds:
            # Others see of it what they see of a call that is under way: it is not taken back.
            _, call = self._judge(state, step.kind.tool, letter)
            self._store.lose(call)
            ends["lost"] = self._read(state, call)
        if step.kind.tool in self._alphabet.flying and len(state.flying) < self._alphabet.most_flying:
            # It is known to have begun. What is known of how it ended is that it failed, see `cell_view`.
            ends["started"] = with_flight(ends["failed"], (0.0, step.kind, step.values))
        return tried, ends

    def unmet(self, state: State) -> frozenset[int]:
        """Tell which contracts are unmet if a session ends in a state."""
        if not self._ends:
            return frozenset()
        self._load(state)
        return frozenset(self._index[id(breach.contract)] for breach in self._store.unmet())

    def places_of(self, contract: int | None) -> frozenset[int]:
        """Find the places of the cells that a contract compares."""
        return frozenset() if contract is None else self._compared[contract]

    # Judging

    def tried(self, state: State, step: Transition, contract: int | None) -> tuple[Try, bool]:
        """Tell what is said of a call in a state, and whether a contract counts it. It is not made."""
        assert step.kind is not None
        self._load(state)
        call = self._call(step.kind.tool, self._letter(step.kind, step.values))
        breaches = self._store.would(call)
        counted = not self.places_of(contract).isdisjoint(self._moved_by(call))
        return self._try(breaches, admitted=not blocked_by(breaches)), counted

    def _judge(self, state: State, tool: str, letter: _Letter) -> tuple[Try, PlannedCall]:
        self._load(state)
        call = self._call(tool, letter)
        breaches = self._store.reserve(call) or []
        return self._try(breaches, admitted=call.admitted), call

    def _try(self, breaches: Sequence[Breach], *, admitted: bool) -> Try:
        known = [(self._index.get(id(breach.contract)), breach) for breach in breaches]
        return Try(
            frozenset(place for place, _ in known if place is not None),
            frozenset(place for place, breach in known if place is not None and breach.blocks()),
            admitted,
        )

    def _call(self, tool: str, letter: _Letter) -> PlannedCall:
        call = PlannedCall(tool, letter.args, letter.plan)
        call.extra, call.about = letter.extra, self._about
        return call

    def _letter(self, kind: CallKind, values: tuple[tuple[str, str], ...]) -> _Letter:
        letter = self._letters.get((kind, values))
        if letter is None:
            args = {**with_values(kind, dict(values)), **dict(kind.answers)}
            plan = self._store.book.plan(kind.tool)
            result = result_with(kind.results, dict(values), kind.told)
            extra = plan.ask(args) if plan.asked and not self._asks_anew else None
            letter = _Letter(args, plan, extra, result)
            self._letters[kind, values] = letter
        return letter

    def _load(self, state: State) -> None:
        store = self._store
        store.step, store.shut = _STEP, HALTED if state.shut else None
        store.under_way.clear()
        store.violated = frozenset()
        known = state is self._loaded and not state.flying
        for place in self._moved_since if known else range(len(self._views)):
            view, frozen = self._views[place], state.cells[place]
            view.load(dict(frozen) if view.is_mapping else frozen)
        self._loaded, self._moved_since = state, ()
        for age, kind, values in state.flying:
            self._fly(age, kind, values)
        if self.entries.values and not known:
            memory = store.memory.state
            memory.load({name: _usable(value) for name, value, _ in state.entries})
            memory.resume({name: -age for name, _, age in state.entries})

    def _read(self, before: State, call: PlannedCall) -> State:
        self._moved_since = self._moved_by(call)
        cells = self._frozen(before.cells, self._moved_since)
        return replace(before, cells=cells, shut=self._store.shut is not None)

    def _moved_by(self, call: PlannedCall) -> Collection[int]:
        """Find the places of all cells that a call moves, or that are read with one of those."""
        moved = set(self._told)
        for mover in (*call.plan.counts, *call.movers()):
            near = self._near.get(id(getattr(mover, "cell", mover)))
            if near is None:
                return range(len(self._views))
            moved |= near
        return sorted(moved)

    def _near_places(self) -> dict[int, frozenset[int]]:
        """Find, by the identity of each cell, its place and those of the cells that are read with it."""
        every = range(len(self._views))
        together = [
            *(
                [place, own]
                for own in every
                for place in every
                if self._views[own].latest is self._views[place]
            ),
            *self._alike,
        ]
        return {
            id(view.live): frozenset((place, *(near for some in together if place in some for near in some)))
            for place, view in enumerate(self._views)
        }

    def _frozen(self, before: tuple[Any, ...], places: Iterable[int]) -> tuple[Any, ...]:
        cells = list(before)
        for place in places:
            cells[place] = hashable(self._views[place].freeze())
        for first, *others in self._alike:
            # Whichever of them has found a value, it is as well known: by the latest of them.
            latest: dict[str, float] = {}
            for place in (first, *others):
                for age, text in cells[place]:
                    latest[text] = min(age, latest.get(text, age))
                cells[place] = ()
            cells[first] = tuple(sorted((age, text) for text, age in latest.items()))
        return tuple(cells)

    def _moved(self, state: State, step: Transition) -> State:
        if step.period is not None:
            return replace(state, cells=self._renewed(state.cells, *step.period))
        if step.passing is not None:
            past = self.windows.passed(state, step.passing)
            self._load(replace(past, flying=()))
            return replace(past, cells=self._frozen(past.cells, range(len(self._views))))
        if step.entry is None:
            return self._aged(state, step.seconds)
        return with_entry(state, *step.entry)

    def _aged(self, state: State, seconds: float) -> State:
        aged = [
            hashable(view.aged(dict(frozen) if view.is_mapping else frozen, seconds))
            for view, frozen in zip(self._views, state.cells, strict=True)
        ]
        most = self.entries.oldest
        later = tuple((name, value, min(age + seconds, most)) for name, value, age in state.entries)
        flying = aged_flights(state.flying, seconds, self._oldest_flight)
        self._load(State(tuple(aged), later))
        return State(self._frozen(state.cells, range(len(self._views))), later, state.shut, flying)

    def _renewed(self, cells: tuple[Any, ...], per: Per, tz: str) -> tuple[Any, ...]:
        """Let those cells begin anew whose period ends with another."""
        ends = _ENDS_WITH[per]
        return tuple(
            blank if view.cell.per in ends and view.cell.tz == tz else frozen
            for view, frozen, blank in zip(self._views, cells, self._blank, strict=True)
        )

    # Calls that are under way

    def _fly(self, age: float, kind: CallKind, values: tuple[tuple[str, str], ...]) -> None:
        """Let a call be under way as far as those contracts see it that count such calls."""
        call = self._call(kind.tool, self._letter(kind, values))
        if call.plan.asked and call.extra is None:
            # What counts such calls asks of their arguments alone, see `analysable`.
            call.extra = call.plan.ask(call.args)
            call.plan.decide(call, call.extra)
        for view in self._views:
            cell: Any = view.live.whole()
            if view.cell.kind != "flights" or not self._moves(call, view.live):
                continue
            if isinstance(cell, Keyed):
                key = call.key(cell.key)
                entry = cell.open(key) if isinstance(key, str) else None
                cell = None if entry is None else entry.cell
            if cell is not None:
                cell.load([*cell.dump(), (len(cell.dump()), -age)])

    def _moves(self, call: PlannedCall, cell: LiveCell) -> bool:
        return any(getattr(mover, "cell", mover) is cell for mover in call.movers())


def _usable(value: Any) -> Any:
    return dict(value) if isinstance(value, tuple) else value
