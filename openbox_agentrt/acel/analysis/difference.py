"""
Compare rules before and after a change: the first call on which they part, in both directions.

Two engines beside each other, one under each set of rules, see the same calls. Only contracts that can have
to do with what changed are watched, and what is found is tried on real sessions of all contracts of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contracts.base import TemporalContract
from ..contracts.declaration import Declaration
from ..contracts.identity import canonical
from ..rulesfile import Rules
from .alphabet import alphabet_of, names_of
from .analyse import MAX_STATES, named_contracts
from .budget import Budget
from .components import Component, components, touched, values_needed
from .known import why_unknown
from .machine import Machine, Transition
from .naming import Names
from .search import Called, row_of
from .traces import TraceRow, shown_rows
from .witness import played
from .words import Changes, changes_between
from .world import Beside, World

__all__ = ("Difference", "compare")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """
    List everything that a change of rules changes.

    Attributes:
        changes: Contracts that were added, removed or changed, in words.
        state: Entries of the initial state that changed, in words.
        stricter: A shortest trace whose last call was let through before and is refused now.
        looser: A shortest trace whose last call was refused before and is let through now.
        owed: A shortest trace after which something is unmet at the end that was not before.
        forgiven: A shortest trace after which something is not unmet at the end any more.
        undecided: What was not decided, and why.
        not_analysed: Contracts that are not analysed, and why.
        states: How many states were tried.
    """

    changes: Changes
    state: tuple[str, ...]
    stricter: tuple[TraceRow, ...] | None
    looser: tuple[TraceRow, ...] | None
    owed: tuple[TraceRow, ...] | None
    forgiven: tuple[TraceRow, ...] | None
    undecided: tuple[str, ...]
    not_analysed: tuple[str, ...]
    states: int

    @property
    def same(self) -> bool:
        """True if both say the same, in whatever order and however written."""
        return not (self.changes.added or self.changes.removed or self.changes.changed or self.state)

    def to_dict(self) -> dict[str, Any]:
        """The difference as JSON data."""

        def rows(trace: tuple[TraceRow, ...] | None) -> list[dict[str, Any]] | None:
            return None if trace is None else [row.to_dict() for row in trace]

        changes = self.changes
        return {
            "same": self.same,
            "added": [{"name": n.name, "spec": n.spec, "line": n.line} for n in changes.added],
            "removed": [{"name": n.name, "spec": n.spec, "line": n.line} for n in changes.removed],
            "changed": [{"name": c.before.name, "words": list(c.words)} for c in changes.changed],
            "state": list(self.state),
            "new_refuses": rows(self.stricter),
            "new_allows": rows(self.looser),
            "new_requires": rows(self.owed),
            "new_forgives": rows(self.forgiven),
            "undecided": list(self.undecided),
            "not_analysed": list(self.not_analysed),
            "states": self.states,
        }

    def lines(self) -> Iterator[str]:
        """Write the difference for people."""
        yield from self.changes.lines()
        yield from (f"changed: state: {what}" for what in self.state)
        for words, trace in (
            ("new refuses, and old allows", self.stricter),
            ("new allows, and old refuses", self.looser),
            ("new requires at the end", self.owed),
            ("new requires no more at the end", self.forgiven),
        ):
            if trace is not None:
                yield f"{words}: {shown_rows(trace)}"
        if not self.same and self.stricter is self.looser is self.owed is self.forgiven is None:
            yield "no call was found on which they part"
        yield from (f"undecided: {what}" for what in self.undecided)
        yield from (f"not analysed: {what}" for what in self.not_analysed)


@dataclass(slots=True)
class _Side:
    """One of the two sets of rules."""

    every: list[TemporalContract]
    known: list[Declaration]
    state: dict[str, Any]


@dataclass(slots=True)
class _Parted:
    """Keep the shortest trace on which the two part, by direction."""

    stricter: tuple[TraceRow, ...] | None = None
    looser: tuple[TraceRow, ...] | None = None
    owed: tuple[TraceRow, ...] | None = None
    forgiven: tuple[TraceRow, ...] | None = None
    states: int = 0
    undecided: list[str] = field(default_factory=list)

    def take(self, other: _Parted) -> None:
        """Keep of both what is shorter."""
        self.stricter = _shorter(self.stricter, other.stricter)
        self.looser = _shorter(self.looser, other.looser)
        self.owed = _shorter(self.owed, other.owed)
        self.forgiven = _shorter(self.forgiven, other.forgiven)
        self.states += other.states
        self.undecided += other.undecided


def _shorter(
    one: tuple[TraceRow, ...] | None, other: tuple[TraceRow, ...] | None
) -> tuple[TraceRow, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return other if len(other) < len(one) else one


def compare(
    old: Rules,
    new: Rules,
    *,
    tools: Collection[str] | None = None,
    lines: tuple[Sequence[int | None], Sequence[int | None]] = ((), ()),
    seconds: float = 10.0,
    states: int = MAX_STATES,
) -> Difference:
    """
    Compare rules before and after a change.

    Args:
        old: The rules before.
        new: The rules after.
        tools: Further names of tools that are tried.
        lines: The lines of the contracts of each in its file.
        seconds: How long is searched.
        states: How many states are searched.
    """
    before, after = _side(old), _side(new)
    changes = changes_between(
        before.every,
        after.every,
        named_contracts(before.every, lines[0]),
        named_contracts(after.every, lines[1]),
    )
    unknown = [
        f"{contract.id or contract.spec}: {why}"
        for contract in (*before.every, *after.every)
        if (why := why_unknown(contract))
    ]
    entries = tuple(_entries(before.state, after.state))
    parted = _Parted()
    if changes.added or changes.removed or changes.changed or entries:
        _search(before, after, parted, Budget(seconds, states), tools or ())
    return Difference(
        changes=changes,
        state=entries,
        stricter=parted.stricter,
        looser=parted.looser,
        owed=parted.owed,
        forgiven=parted.forgiven,
        undecided=tuple(parted.undecided),
        not_analysed=tuple(dict.fromkeys(unknown)),
        states=parted.states,
    )


def _side(rules: Rules) -> _Side:
    every: list[TemporalContract] = list(rules.contracts)
    known = [c for c in rules.contracts if why_unknown(c) is None]
    return _Side(every, list(known), rules.state)


def _entries(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name) or (name in old) is not (name in new):
            yield f"{name} {old.get(name, 'none')!r} -> {new.get(name, 'none')!r}"


def _search(old: _Side, new: _Side, parted: _Parted, budget: Budget, tools: Iterable[str]) -> None:
    every = [*old.known, *new.known]
    names, _ = names_of(every, tools)
    about = touched(every, names)
    forms = [canonical(contract) for contract in every]
    old_forms, new_forms = forms[: len(old.known)], forms[len(old.known) :]
    changed = {
        place
        for place, form in enumerate(forms)
        if form not in (new_forms if place < len(old.known) else old_forms)
        or (old.state != new.state and every[place].template == "requires_state")
    }
    waiting = [c for c in components(every, about, range(len(every))) if changed & set(c.contracts)]
    for component in waiting:
        part = budget.part(2 * len(waiting))
        here = _Parted()
        if not _Pair(old, new, every, component).search(part, here):
            # Of the same calls, only those contracts that changed: what is found is tried on all of them.
            less = tuple(place for place in component.contracts if place in changed)
            _Pair(old, new, every, Component(less, component.names)).search(part, here)
            first = every[min(less)]
            here.undecided.append(f"whether they part elsewhere, around {first.id or first.spec}")
        parted.take(here)


class _Pair:
    """Two engines beside each other, of some contracts."""

    def __init__(self, old: _Side, new: _Side, every: Sequence[Declaration], component: Component) -> None:
        self._old = old
        self._new = new
        some = [every[place] for place in component.contracts]
        before = [every[place] for place in component.contracts if place < len(old.known)]
        after = [every[place] for place in component.contracts if place >= len(old.known)]
        alphabet = alphabet_of(some, component.names)
        self._whole = alphabet.whole
        machines = [Machine(before, alphabet, old.state), Machine(after, alphabet, new.state)]
        self._world = World(machines, alphabet, values=values_needed(some))
        self._edges: list[tuple[int, Transition, str, Names] | None] = []
        self._parted = _Parted()

    def search(self, budget: Budget, parted: _Parted) -> bool:
        """Look for where they part, nearest first, and tell whether everything was looked at."""
        self._parted = parted
        places: dict[Beside, int] = {}
        waiting: deque[tuple[int, Beside]] = deque()

        def reach(states: Beside, edge: tuple[int, Transition, str, Names] | None) -> None:
            if states not in places:
                places[states] = len(self._edges)
                self._edges.append(edge)
                waiting.append((places[states], states))
                self._look_at_end(places[states], states)

        reach(self._world.first(), None)
        while waiting and not self._found_all():
            if not budget.take():
                parted.states += len(places)
                return False
            self._expand(*waiting.popleft(), reach)
        parted.states += len(places)
        return self._whole

    def _found_all(self) -> bool:
        return self._parted.stricter is not None and self._parted.looser is not None

    def _expand(
        self,
        place: int,
        states: Beside,
        reach: Callable[[Beside, tuple[int, Transition, str, Names] | None], None],
    ) -> None:
        for step in self._world.steps(states):
            tries, ends = self._world.answer(states, step)
            if len(tries) == 2 and tries[0].admitted is not tries[1].admitted:
                self._part(place, step, stricter=tries[0].admitted)
            for outcome, after, names in ends:
                reach(after, (place, step, outcome, names))

    def _part(self, place: int, step: Transition, *, stricter: bool) -> None:
        known = self._parted.stricter if stricter else self._parted.looser
        if known is not None:
            return
        rows, called = self._way(place)
        rows.append(row_of(self._world, step, called, "ok"))
        old, new = self._played(rows)
        allowed, refused = (old, new) if stricter else (new, old)
        if allowed[-1].outcome == "ok" and refused[-1].outcome == "refused" and _alike(old, new):
            if stricter:
                self._parted.stricter = tuple(refused)
            else:
                self._parted.looser = tuple(refused)

    def _look_at_end(self, place: int, states: Beside) -> None:
        before, after = self._world.machines
        if not before.unmet(states[0]) and not after.unmet(states[1]):
            return
        if self._parted.owed is not None and self._parted.forgiven is not None:
            return
        rows, _ = self._way(place)
        old, new = self._played([*rows, TraceRow(kind="end")])
        if not _alike(old, new):
            return
        if self._parted.owed is None and new[-1].by and not old[-1].by:
            self._parted.owed = tuple(new)
        if self._parted.forgiven is None and old[-1].by and not new[-1].by:
            self._parted.forgiven = tuple(old)

    def _played(self, rows: Sequence[TraceRow]) -> tuple[list[TraceRow], list[TraceRow]]:
        return (
            played(rows, self._old.every, self._old.state),
            played(rows, self._new.every, self._new.state),
        )

    def _way(self, place: int) -> tuple[list[TraceRow], Called]:
        edges = []
        edge = self._edges[place]
        while edge is not None:
            edges.append(edge)
            edge = self._edges[edge[0]]
        rows: list[TraceRow] = []
        called = Called()
        for _, step, outcome, names in reversed(edges):
            rows.append(row_of(self._world, step, called, outcome))
            called.rename(names)
        return rows, called


def _alike(old: Sequence[TraceRow], new: Sequence[TraceRow]) -> bool:
    """Tell whether all but the last row of a trace went as well on both sides."""
    pairs = zip(old[:-1], new[:-1], strict=True)
    return all(one.outcome == other.outcome for one, other in pairs)
