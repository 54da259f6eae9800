"""Two engines beside each other, one under each of two sets of rules: where they part first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ..budget import Budget
from ..calls.alphabet import alphabet_of
from ..named import name_of
from ..questions.witness import played
from ..rules.components import Component, values_needed
from ..search.engine_machine import Machine
from ..search.explore import Edge, edges_to
from ..search.named_rows import Called, row_of
from ..search.next_steps import Beside, World
from ..search.state import Transition
from ..search.trace_row import TraceRow

__all__ = ("Pair", "Parted", "Side")


@dataclass(slots=True)
class Side:
    """
    One of the two sets of rules.

    Attributes:
        every: The contracts.
        known: Those that can be analysed.
        state: The state that a session begins with.
        called: What contracts are called that have another name on the other side.
    """

    every: list[TemporalContract]
    known: list[Declaration]
    state: dict[str, Any]
    called: dict[str, str] = field(default_factory=dict)

    def broken(self, contracts: Iterable[TemporalContract]) -> dict[str, str]:
        """Name those of some contracts that are in force, by names that are alike on both sides."""
        names = (name_of(contract) for contract in contracts if contract.mode == "enforce")
        return {self.called.get(name, name): name for name in names}

    def unmet(self, end: TraceRow) -> dict[str, str]:
        """Name those that are unmet at the end of a trace."""
        return self.broken(contract for contract in self.every if name_of(contract) in end.by)


@dataclass(slots=True)
class Parted:
    """Keep the shortest trace on which the two part, by direction, and say whether all was looked at."""

    stricter: tuple[TraceRow, ...] | None = None
    looser: tuple[TraceRow, ...] | None = None
    owed: tuple[TraceRow, ...] | None = None
    forgiven: tuple[TraceRow, ...] | None = None
    states: int = 0
    undecided: list[str] = field(default_factory=list)
    whole: bool = True

    def in_calls(self, *, stricter: bool) -> tuple[TraceRow, ...] | None:
        """Give the trace to a call on which they part, in one direction."""
        return self.stricter if stricter else self.looser

    def take(self, other: Parted) -> None:
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


class Pair:
    """
    Look for where two engines part that watch some contracts each.

    Args:
        ends: Whether is looked for sessions at whose ends they part, too.

    Attributes:
        in_the_way: Names of contracts that are not watched and that kept a trace from showing it.
        unknown: Names of such that are not analysed.
        unshown: Whether no session showed a trace, though nothing stood in the way that is not watched.
        unshown_end: The same of a trace after which they part at the end.
    """

    def __init__(
        self,
        old: Side,
        new: Side,
        every: Sequence[Declaration],
        component: Component,
        budget: Budget,
        *,
        ends: bool = True,
    ) -> None:
        self._old = old
        self._new = new
        self._budget = budget
        self._ends = ends
        some = [every[place] for place in component.contracts]
        before = [every[place] for place in component.contracts if place < len(old.known)]
        after = [every[place] for place in component.contracts if place >= len(old.known)]
        self._sides = before, after
        self._watched = frozenset(name_of(contract) for contract in some)
        self._known = frozenset(name_of(contract) for contract in every)
        alphabet = alphabet_of(some, component.names, budget.part(2))
        self._whole = alphabet.whole
        machines = [Machine(before, alphabet, old.state), Machine(after, alphabet, new.state)]
        self._world = World(machines, alphabet, values=values_needed(some))
        self._edges: list[Edge | None] = []
        self._parted = Parted()
        self.in_the_way: frozenset[str] = frozenset()
        self.unknown: frozenset[str] = frozenset()
        self.unshown = False
        self.unshown_end = False

    def search(self, parted: Parted) -> bool:
        """
        Look for where they part, nearest first, until something that is not watched stands in the way.

        Returns:
            Whether everything was looked at.
        """
        self._parted = parted
        places: dict[Beside, int] = {}
        waiting: deque[tuple[int, Beside]] = deque()

        def reach(states: Beside, edge: Edge | None) -> None:
            if states not in places:
                places[states] = len(self._edges)
                self._edges.append(edge)
                waiting.append((places[states], states))
                self._look_at_end(places[states], states)

        reach(self._world.first(), None)
        whole = self._whole
        while waiting and not self._found_all() and not self.in_the_way:
            if not self._budget.take() or not self._expand(*waiting.popleft(), reach):
                whole = False
                break
        parted.states += len(places)
        return whole and not self.in_the_way and not self._world.lacks_values

    def _found_all(self) -> bool:
        found = [self._parted.stricter, self._parted.looser]
        found += [self._parted.owed, self._parted.forgiven] if self._ends else []
        return None not in found

    def _expand(self, place: int, states: Beside, reach: Callable[[Beside, Edge | None], None]) -> bool:
        """Look at all that can happen in a state, and tell whether there was time for it."""
        for step in self._world.steps(states):
            if self._budget.late:
                return False
            tries, ends = self._world.answer(states, step)
            if len(tries) == 2 and tries[0].admitted is not tries[1].admitted:
                self._part(place, step, stricter=tries[0].admitted)
            for outcome, after, names in ends:
                reach(after, Edge(place, step, outcome, names))
        return True

    def _part(self, place: int, step: Transition, *, stricter: bool) -> None:
        if self._parted.in_calls(stricter=stricter) is not None:
            return
        rows, called = self._way(place)
        rows.append(row_of(self._world, step, called, "ok"))
        old, new = self._played(rows)
        last = old[-1] if stricter else new[-1]
        way = self._note(rows, old, new, last=last.by if last.outcome == "refused" else ())
        self._keep_call(old, new, self._parted)
        if self._parted.in_calls(stricter=stricter) is None:
            self.unshown = self.unshown or not way

    def _look_at_end(self, place: int, states: Beside) -> None:
        was, now = (
            side.broken(contracts[place] for place in machine.unmet(state))
            for side, contracts, machine, state in zip(
                (self._old, self._new), self._sides, self._world.machines, states, strict=True
            )
        )
        owed = bool(now.keys() - was) and self._parted.owed is None
        forgiven = bool(was.keys() - now) and self._parted.forgiven is None
        if self._ends and (owed or forgiven):
            self._part_at_end(place, owed=owed, forgiven=forgiven)

    def _part_at_end(self, place: int, *, owed: bool, forgiven: bool) -> None:
        rows, _ = self._way(place)
        old, new = self._played([*rows, TraceRow(kind="end")])
        way = self._note(rows, old, new, last=())
        self._keep_end(old, new, self._parted)
        if (owed and self._parted.owed is None) or (forgiven and self._parted.forgiven is None):
            self.unshown_end = self.unshown_end or not way

    def show(self, rows: Sequence[TraceRow], parted: Parted) -> bool:
        """Tell whether sessions of both part on a trace, and keep it."""
        old, new = self._played(rows)
        keep = self._keep_end if rows[-1].kind == "end" else self._keep_call
        return keep(old, new, parted)

    def _keep_call(self, old: Sequence[TraceRow], new: Sequence[TraceRow], parted: Parted) -> bool:
        """Tell whether sessions of both part on the last call of a trace, and keep it."""
        if not _alike(old, new) or old[-1].outcome == new[-1].outcome:
            return False
        if old[-1].outcome == "ok":
            parted.stricter = parted.stricter or tuple(new)
        else:
            parted.looser = parted.looser or tuple(old)
        return True

    def _keep_end(self, old: Sequence[TraceRow], new: Sequence[TraceRow], parted: Parted) -> bool:
        """Tell whether sessions of both part at the end of a trace, and keep it."""
        if not _alike(old, new):
            return False
        was, now = self._old.unmet(old[-1]), self._new.unmet(new[-1])
        owed = tuple(now[name] for name in sorted(now.keys() - was))
        forgiven = tuple(was[name] for name in sorted(was.keys() - now))
        if owed and parted.owed is None:
            parted.owed = (*new[:-1], replace(new[-1], by=owed))
        if forgiven and parted.forgiven is None:
            parted.forgiven = (*old[:-1], replace(old[-1], by=forgiven))
        return bool(owed or forgiven)

    def _note(
        self,
        rows: Sequence[TraceRow],
        old: Sequence[TraceRow],
        new: Sequence[TraceRow],
        *,
        last: Iterable[str],
    ) -> bool:
        """Note what refuses a call of a trace, or objects to the end, and is not watched, if anything."""
        way = set(last)
        for played_rows in (old[:-1], new[:-1]):
            for row, done in zip(rows, played_rows, strict=False):
                way |= set(done.by) if done.outcome != row.outcome else set()
        self.in_the_way |= (way - self._watched) & self._known
        self.unknown |= way - self._known
        return bool(way - self._watched)

    def _played(self, rows: Sequence[TraceRow]) -> tuple[list[TraceRow], list[TraceRow]]:
        return (
            played(rows, self._old.every, self._old.state),
            played(rows, self._new.every, self._new.state),
        )

    def _way(self, place: int) -> tuple[list[TraceRow], Called]:
        rows: list[TraceRow] = []
        called = Called()
        for edge in edges_to(self._edges, place):
            rows.append(row_of(self._world, edge.step, called, edge.outcome))
            called.rename(edge.names)
        return rows, called


def _alike(old: Sequence[TraceRow], new: Sequence[TraceRow]) -> bool:
    """Tell whether all but the last row of a trace went as well on both sides."""
    pairs = zip(old[:-1], new[:-1], strict=True)
    return all(one.outcome == other.outcome for one, other in pairs)
