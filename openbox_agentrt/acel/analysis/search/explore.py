"""
Every state that sessions can reach, nearest first.

Since it goes breadth first, the way to whatever is found is as short as any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..budget import Budget
from .alike_values import Names
from .next_steps import Beside, World
from .state import Outcome, Transition, Try
from .trace_row import TraceRow

__all__ = ("Called", "Explored", "Look", "explore", "row_of", "way_to")

# How values of keys are called in a trace that people read.
_MOST_LET = 20
_SHOWN = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class _Edge:
    before: int
    step: Transition
    outcome: Outcome
    names: Names


@dataclass(slots=True)
class Explored:
    """
    Hold all states that sessions under some contracts can reach.

    Attributes:
        world: What was searched: one machine.
        states: Every state, nearest first.
        fired: Of each contract that a call breaks, the first such call.
        fired_whole: The same of calls that have every argument that contracts read.
        refused: Of each set of contracts for which a call is refused, the first such call.
        allowed: The tools of which a call is let through.
        let: Of each of them, the first such calls.
        denied: Of each tool, the sets of contracts for which a call of it is refused, each with the first.
        unmet: Of each state, the contracts that are unmet if a session ends there.
        before: Of each state, those from which it is reached.
        whole: Whether there are no more states.
    """

    world: World
    states: list[Beside] = field(default_factory=list)
    fired: dict[int, tuple[int, Transition]] = field(default_factory=dict)
    fired_whole: dict[int, tuple[int, Transition]] = field(default_factory=dict)
    refused: dict[frozenset[int], tuple[int, Transition]] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    let: dict[str, list[tuple[int, Transition]]] = field(default_factory=dict)
    denied: dict[str, dict[frozenset[int], tuple[int, Transition]]] = field(default_factory=dict)
    unmet: list[frozenset[int]] = field(default_factory=list)
    before: list[set[int]] = field(default_factory=list)
    whole: bool = False
    edges: list[_Edge | None] = field(default_factory=list)

    def reaching(self, goals: Iterable[int]) -> set[int]:
        """Find the states from which one of some states is reached, these included."""
        seen, waiting = set(goals), list(goals)
        while waiting:
            for state in self.before[waiting.pop()]:
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        return seen


Look: TypeAlias = Callable[[Explored, int, Transition | None, Try | None], bool]
"""Looks at a state, and at a call in it and what is said of it, and tells whether the search is to stop."""


def explore(world: World, budget: Budget, look: Look | None = None) -> Explored:
    """
    Search the states that sessions can reach, as far as the budget allows.

    Args:
        world: What is searched: one machine.
        budget: How much is searched.
        look: Looks at each state, and at each call in it; the search stops once it gives True.
    """
    found = Explored(world)
    (machine,) = world.machines
    places: dict[Beside, int] = {}
    waiting: deque[int] = deque()

    def reach(state: Beside, edge: _Edge | None) -> None:
        place = places.get(state)
        if place is None:
            place = places[state] = len(found.states)
            found.states.append(state)
            found.edges.append(edge)
            found.unmet.append(machine.unmet(state[0]))
            found.before.append(set())
            waiting.append(place)
        if edge is not None:
            found.before[place].add(edge.before)

    reach(world.first(), None)
    while waiting:
        if not budget.take():
            return found
        place = waiting.popleft()
        if (look is not None and look(found, place, None, None)) or _expand(
            found, place, reach, look, budget
        ):
            return found
    found.whole = True
    return found


def _expand(
    found: Explored,
    place: int,
    reach: Callable[[Beside, _Edge | None], None],
    look: Look | None,
    budget: Budget,
) -> bool:
    """Look at all that can happen in a state, and tell whether the search stops there."""
    state = found.states[place]
    for step in found.world.steps(state):
        if budget.late:
            return True
        tries, ends = found.world.answer(state, step)
        if step.kind is not None and not step.ended:
            (tried,) = tries
            for contract in tried.broken:
                found.fired.setdefault(contract, (place, step))
                if step.kind.complete and step.is_whole:
                    found.fired_whole.setdefault(contract, (place, step))
            if tried.admitted:
                found.allowed.add(step.kind.tool)
                _note_let(found, step.kind.tool, place, step)
            else:
                found.refused.setdefault(tried.blocking, (place, step))
                found.denied.setdefault(step.kind.tool, {}).setdefault(tried.blocking, (place, step))
            if look is not None and look(found, place, step, tried):
                return True
        for outcome, after, names in ends:
            reach(after, _Edge(place, step, outcome, names))
    return False


def _note_let(found: Explored, tool: str, place: int, step: Transition) -> None:
    known = found.let.setdefault(tool, [])
    if len(known) < _MOST_LET:
        known.append((place, step))


def way_to(found: Explored, place: int) -> tuple[list[TraceRow], Called]:
    """
    Write the way to a state as a trace.

    Returns:
        The rows, and how the values of keys in the state are called in them.
    """
    edges: list[_Edge] = []
    edge = found.edges[place]
    while edge is not None:
        edges.append(edge)
        edge = found.edges[edge.before]
    rows: list[TraceRow] = []
    called = Called()
    for edge in reversed(edges):
        rows.append(row_of(found.world, edge.step, called, edge.outcome))
        called.rename(edge.names)
    return rows, called


def row_of(world: World, step: Transition, called: Called, outcome: str) -> TraceRow:
    """Write a step as a row of a trace."""
    if step.kind is not None:
        groups = dict(step.kind.slots)
        values = {group: [v for path, v in step.values if groups[path] == group] for group in groups.values()}
        names = {
            group: dict(zip(some, some, strict=True))
            if world.is_written_out(group)
            else called.of(group, some)
            for group, some in values.items()
        }
        return TraceRow(
            kind="finish" if step.ended else "call",
            tool=step.kind.tool,
            args=world.args_of(step, names),
            outcome=outcome,
            result=world.result_of(step, names) if outcome == "ok" and not step.ended else None,
        )
    if step.entry is None:
        return TraceRow(kind="wait", seconds=step.seconds, until=step.period)
    entry, value, of = step.entry
    group = world.group_of_entry(entry)
    if of is not None and group is not None:
        value = {called.of(group, [of])[of]: value}
    return TraceRow(kind="write", entry=(entry, value))


class Called:
    """Name the values of keys in a trace, alike from their first call to the last."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, str]] = {}
        self._used: dict[str, int] = {}

    def of(self, group: str, values: Iterable[str]) -> dict[str, str]:
        """Give the names of some values of a group; one that is new gets a new one."""
        known = self.names.setdefault(group, {})
        for value in values:
            if value not in known:
                number = self._used.get(group, 0)
                self._used[group] = number + 1
                # Only values that were made up here are renamed, not texts that a pattern needs.
                known[value] = _SHOWN[number] if len(value) == 1 and number < len(_SHOWN) else value
        return known

    def rename(self, names: Names) -> None:
        """Go on to a state in which values have other names."""
        for group, changed in names.items():
            known = self.names.get(group, {})
            self.names[group] = {new: known.get(old, old) for old, new in changed.items()}
