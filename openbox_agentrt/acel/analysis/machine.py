"""
Our own engine, one call after another, from any state to the next.

A state is what the cells of the engine remember, see `memory`. To try a call, the cells are set to a state,
the store of the engine judges and settles the call, and the cells are read again. So nothing that is found
here can be another reading of a contract than the one that is in force.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..contracts.declaration import Declaration
from ..contracts.rules import Guard
from ..engine.planned_call import PlannedCall
from ..engine.rule_set import RuleSet
from ..engine.store import SessionStore
from ..memory.state import StateStore
from .alphabet import ALL_ARGUMENTS, Alphabet, CallKind, unit_of, with_values
from .known import guards_of
from .memory import CellView, views_of

__all__ = ("Answer", "Machine", "Names", "Outcome", "State", "Step", "Try")

Outcome: TypeAlias = Literal["ok", "failed", "refused"]
Names: TypeAlias = dict[str, dict[str, str]]
"""Of each group of values, how they are called in another state."""

_ALIVE = "abcdefghijklmnopqrstuvwxyz"
_NOW = 0.0
_STEP = 100_000


@dataclass(frozen=True, slots=True)
class State:
    """
    What a session remembers.

    Attributes:
        cells: What each cell does.
        entries: The entries of the session's state, and for how long each has been there.
        shut: Whether nothing is admitted any more.
    """

    cells: tuple[Any, ...]
    entries: tuple[tuple[str, Any, float], ...]
    shut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    Something that can happen next: a call, a time that passes, or code that writes an entry.

    Attributes:
        kind: Of a call, its kind.
        values: Of a call, the values of its keys by path.
        seconds: Of a time, how long.
        entry: Of what is written, the entry, its value, and which of a mapping's.
    """

    kind: CallKind | None = None
    values: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    entry: tuple[str, Any, str | None] | None = None


@dataclass(slots=True)
class Try:
    """
    What the engine says of a call.

    Attributes:
        broken: The contracts that it breaks.
        blocking: Those of them for which it is refused.
        admitted: Whether it was let through.
    """

    broken: frozenset[int]
    blocking: frozenset[int]
    admitted: bool


Answer: TypeAlias = "tuple[Try | None, list[tuple[Outcome, State, Names]]]"
"""What is said of a step, and how it can end: the outcome, the state, and how values are called in it."""


@dataclass(slots=True)
class _Letter:
    args: dict[str, Any]
    plan: Any
    extra: Any


@dataclass(slots=True)
class _Entries:
    """What contracts want of the entries of a session's state."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, str | None] = field(default_factory=dict)
    oldest: float = 0.0


class Machine:
    """
    Try calls in any state of a session that watches some contracts.

    Args:
        contracts: The contracts. They are copied.
        alphabet: The calls.
        state: The state that a session begins with.
        values: So many values of a key are told apart.

    Attributes:
        limited: Whether a call with one more value was left out.
    """

    def __init__(
        self,
        contracts: Sequence[Declaration],
        alphabet: Alphabet,
        state: Mapping[str, Any],
        *,
        values: int,
    ) -> None:
        own = [copy.copy(contract) for contract in contracts]
        self._index = {id(contract): place for place, contract in enumerate(own)}
        self._store = SessionStore(RuleSet(own), StateStore(state), lambda: _NOW, max_keys=10_000)
        self._store.memory.timeline.advance(_NOW)
        self._views = views_of(own, self._store.memory, unit_of(own))
        self._alphabet = alphabet
        self._values = min(values, len(_ALIVE))
        self._letters: dict[tuple[CallKind, tuple[tuple[str, str], ...]], _Letter] = {}
        self._entries = _wanted(own, alphabet)
        self._initial = dict(state)
        self._groups = [_groups_of(view, alphabet) for view in self._views]
        self._related = _related(self._views, self._groups)
        self._halts = any(contract.on_violation == "halt" for contract in own)
        self._late = any(guard.kind == "overdue" for contract in own for guard in guards_of(contract))
        self._ends = any(contract.at_end for contract in own)
        self.limited = False

    def first(self) -> State:
        """Give the state of a new session."""
        written = [(name, value) for name, value in self._initial.items() if name in self._entries.values]
        entries = tuple((name, _hashable(value), 0.0) for name, value in sorted(written))
        return State(tuple(_hashable(view.freeze()) for view in self._views), entries)

    def steps(self, state: State) -> Iterator[Step]:
        """List what can happen next in a state."""
        if state.shut:
            return
        present = self._present(state)
        for kind in self._alphabet.kinds:
            yield from (Step(kind=kind, values=values) for values in self._values_for(kind, present))
        yield from (Step(seconds=seconds) for seconds in self._alphabet.waits)
        for entry, values in self._entries.values.items():
            group = self._entries.groups[entry]
            names = [None] if group is None else self._choices(group, present)
            yield from (Step(entry=(entry, v, n)) for v in values.values() for n in names)

    def answer(self, state: State, step: Step) -> Answer:
        """Tell what a step comes to in a state."""
        if step.kind is None:
            return None, [("ok", *self._named(self._moved(state, step)))]
        letter = self._letter(step.kind, step.values)
        tried, call = self._judge(state, step.kind.tool, letter)
        if not tried.admitted:
            if not (self._halts or self._late):
                return tried, []
            return tried, [("refused", *self._named(self._read(state)))]
        self._store.commit(call)
        ends: list[tuple[Outcome, State, Names]] = [("ok", *self._named(self._read(state)))]
        _, call = self._judge(state, step.kind.tool, letter)
        self._store.abort(call, ran=True)
        failed, names = self._named(self._read(state))
        if failed != ends[0][1]:
            ends.append(("failed", failed, names))
        return tried, ends

    def unmet(self, state: State) -> frozenset[int]:
        """Tell which contracts are unmet if a session ends in a state."""
        if not self._ends:
            return frozenset()
        self._load(state)
        return frozenset(self._index[id(breach.contract)] for breach in self._store.unmet())

    def args_of(self, step: Step, names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """Write the arguments of a call, with its values called as `names` says of each group."""
        assert step.kind is not None
        groups = dict(step.kind.slots)
        values = {path: names[groups[path]].get(value, value) for path, value in step.values}
        return with_values(step.kind, values)

    def group_of_entry(self, entry: str) -> str | None:
        """Give the group of the names in an entry of the state that is a mapping, or None."""
        return self._entries.groups.get(entry)

    # Judging

    def _judge(self, state: State, tool: str, letter: _Letter) -> tuple[Try, PlannedCall]:
        self._load(state)
        call = PlannedCall(tool, letter.args, letter.plan)
        call.extra = letter.extra
        breaches = self._store.reserve(call) or []
        known = [(self._index.get(id(breach.contract)), breach) for breach in breaches]
        return (
            Try(
                frozenset(place for place, _ in known if place is not None),
                frozenset(place for place, breach in known if place is not None and breach.blocks()),
                call.admitted,
            ),
            call,
        )

    def _letter(self, kind: CallKind, values: tuple[tuple[str, str], ...]) -> _Letter:
        letter = self._letters.get((kind, values))
        if letter is None:
            args = with_values(kind, dict(values))
            plan = self._store.book.plan(kind.tool)
            letter = _Letter(args, plan, plan.ask(args) if plan.asked else None)
            self._letters[kind, values] = letter
        return letter

    def _load(self, state: State) -> None:
        store = self._store
        store.step, store.flying, store.shut = _STEP, 0, None
        store.violated = frozenset()
        for view, frozen in zip(self._views, state.cells, strict=True):
            view.load(dict(frozen) if view.cell.key is not None else frozen)
        if self._entries.values:
            memory = store.memory.state
            memory.load({name: _usable(value) for name, value, _ in state.entries})
            memory.resume({name: -age for name, _, age in state.entries})

    def _read(self, before: State) -> State:
        cells = tuple(_hashable(view.freeze()) for view in self._views)
        return State(cells, before.entries, self._store.shut is not None)

    def _moved(self, state: State, step: Step) -> State:
        if step.entry is None:
            aged = [
                _hashable(view.aged(dict(frozen) if view.cell.key is not None else frozen, step.seconds))
                for view, frozen in zip(self._views, state.cells, strict=True)
            ]
            most = self._entries.oldest
            later = tuple((name, value, min(age + step.seconds, most)) for name, value, age in state.entries)
            self._load(State(tuple(aged), later))
            return State(tuple(_hashable(view.freeze()) for view in self._views), later, state.shut)
        name, value, of = step.entry
        known = {entry: (value, age) for entry, value, age in state.entries}
        if of is not None:
            before = known.get(name, ((), 0.0))[0]
            inner = dict(before) if isinstance(before, tuple) else {}
            value = _hashable({**inner, of: value})
        known[name] = (value, 0.0)
        entries = tuple((entry, value, age) for entry, (value, age) in sorted(known.items()))
        return State(state.cells, entries, state.shut)

    # Values of keys

    def _present(self, state: State) -> dict[str, dict[str, list[Any]]]:
        """Find the values that a state knows, each with what it says of them."""
        found: dict[str, dict[str, list[Any]]] = {}
        for place, (groups, frozen) in enumerate(zip(self._groups, state.cells, strict=True)):
            for position, group, name, about in _names_in(groups, frozen):
                found.setdefault(group, {}).setdefault(name, []).append((place, position, about))
        for entry, value, _ in state.entries:
            of = self._entries.groups.get(entry)
            for inner, said in value if of is not None and isinstance(value, tuple) else ():
                found.setdefault(str(of), {}).setdefault(inner, []).append((entry, said))
        return found

    def _values_for(
        self, kind: CallKind, present: Mapping[str, Mapping[str, list[Any]]]
    ) -> Iterator[tuple[tuple[str, str], ...]]:
        if not kind.slots:
            yield ()
            return
        groups = [group for _, group in kind.slots]
        choices = [self._choices(group, present, fresh=groups.count(group)) for group in groups]
        paths = [path for path, _ in kind.slots]
        for chosen in itertools.product(*choices):
            yield tuple(zip(paths, chosen, strict=True))
        for left_out in paths:
            if left_out != ALL_ARGUMENTS:
                some = zip(paths, choices, strict=True)
                yield tuple((path, of[0]) for path, of in some if path != left_out and of)

    def _choices(
        self, group: str, present: Mapping[str, Mapping[str, list[Any]]], *, fresh: int = 1
    ) -> list[str]:
        fixed = self._alphabet.fixed.get(group)
        if fixed is not None:
            return list(fixed)
        if group == ALL_ARGUMENTS:
            return ["a", "b"]
        known = present.get(group, {})
        if group in self._related:
            names = list(known)
        else:
            # Of values of which the same is known, one stands for all.
            names = list({repr(sorted(map(repr, about))): name for name, about in known.items()}.values())
        new = [name for name in _ALIVE[: self._values] if name not in known][:fresh]
        self.limited = self.limited or not new
        return [*sorted(names), *new]

    def _named(self, state: State) -> tuple[State, Names]:
        """Call the values of a state by the names that they have in the first state that is like it."""
        present = self._present(state)
        names: Names = {}
        for group, known in present.items():
            if group in self._alphabet.fixed or group == ALL_ARGUMENTS:
                continue
            order = sorted(known, key=lambda name: (repr(sorted(map(repr, known[name]))), name))
            names[group] = dict(zip(order, _ALIVE, strict=False))
        if all(old == new for known in names.values() for old, new in known.items()):
            return state, names
        cells = tuple(
            _renamed(groups, frozen, names) for groups, frozen in zip(self._groups, state.cells, strict=True)
        )
        entries = tuple(
            (name, self._entry_renamed(name, value, names), age) for name, value, age in state.entries
        )
        return State(cells, entries, state.shut), names

    def _entry_renamed(self, name: str, value: Any, names: Names) -> Any:
        group = self._entries.groups.get(name)
        if group is None or not isinstance(value, tuple):
            return value
        known = names.get(group, {})
        return _hashable({known.get(inner, inner): said for inner, said in value})


_Groups: TypeAlias = tuple["tuple[str, ...]", "str | None"]
"""The groups of the parts of a cell's key, and of the values that it tells apart."""


def _groups_of(view: CellView, alphabet: Alphabet) -> _Groups:
    inner = alphabet.groups.get(view.cell.field or "") if view.cell.kind == "distinct" else None
    form = None if view.cell.key is None else view.cell.key.form()
    if form is None:
        return (), inner
    paths = [form] if isinstance(form, str) else list(form.values())[:1] if isinstance(form, dict) else form
    return tuple(alphabet.groups[path] for path in paths), inner


def _related(views: Sequence[CellView], groups: Sequence[_Groups]) -> frozenset[str]:
    """Find the groups whose values a cell sees together with those of another."""
    found: set[str] = set()
    for (keys, inner), _ in zip(groups, views, strict=True):
        together = (*keys, *(() if inner is None else (inner,)))
        found |= set(together) if len(together) > 1 else set()
    return frozenset(found)


def _names_in(groups: _Groups, frozen: Any) -> Iterator[tuple[int, str, str, Any]]:
    keys, inner = groups
    if not keys:
        if inner is not None:
            yield from ((0, inner, value, age) for value, age in _values_in(frozen))
        return
    for name, value in frozen:
        parts = _parts(name, keys)
        about = value if inner is None else len(value)
        yield from ((p, group, part, about) for p, (group, part) in enumerate(zip(keys, parts, strict=True)))
        if inner is not None:
            yield from ((len(keys), inner, known, age) for known, age in _values_in(value))


def _values_in(frozen: Any) -> Iterator[tuple[str, float]]:
    for value in frozen:
        yield (value, 0.0) if isinstance(value, str) else (value[1], value[0])


def _parts(name: str, keys: tuple[str, ...]) -> list[str]:
    return [name] if len(keys) == 1 else json.loads(name)


def _renamed(groups: _Groups, frozen: Any, names: Names) -> Any:
    keys, inner = groups
    if not keys:
        return frozen if inner is None else _values_renamed(frozen, names.get(inner, {}))
    found = {}
    for name, value in frozen:
        parts = [names.get(g, {}).get(p, p) for g, p in zip(keys, _parts(name, keys), strict=True)]
        new = parts[0] if len(keys) == 1 else json.dumps(parts, ensure_ascii=False)
        found[new] = value if inner is None else _values_renamed(value, names.get(inner, {}))
    return _hashable(found)


def _values_renamed(frozen: Any, names: Mapping[str, str]) -> Any:
    if all(isinstance(value, str) for value in frozen):
        return tuple(sorted(names.get(value, value) for value in frozen))
    return tuple((age, names.get(value, value)) for age, value in frozen)


def _hashable(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def _usable(value: Any) -> Any:
    return dict(value) if isinstance(value, tuple) else value


def _wanted(contracts: Sequence[Declaration], alphabet: Alphabet) -> _Entries:
    found = _Entries()
    for contract in contracts:
        for guard in guards_of(contract):
            if guard.kind == "state":
                _note_entry(found, guard, alphabet)
    for values in found.values.values():
        other: Any = False if any(value is True for value in values.values()) else None
        values.setdefault(repr(other), other)
    return found


def _note_entry(found: _Entries, guard: Guard, alphabet: Alphabet) -> None:
    found.values.setdefault(guard.entry, {})[repr(guard.value)] = guard.value
    form = None if guard.key is None else guard.key.form()
    found.groups.setdefault(guard.entry, None if form is None else alphabet.groups.get(str(form)))
    found.oldest = max(found.oldest, 0.0 if guard.within is None else guard.within + 1)
