"""
Every state that sessions can reach, nearest first.

Since it goes breadth first, the way to whatever is found is as short as any.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..budget import Budget
from .alike_values import Names
from .next_steps import Beside, World
from .state import Outcome, Transition, Try

__all__ = ("PERHAPS", "Aim", "Edge", "Explored", "Look", "edges_to", "explore")

PERHAPS = "\0perhaps"
"""In the place of a tool: a time that can pass so in some of the sessions that are in a state."""

_MOST_LET = 20
_NOT_COUNTED = 2


@dataclass(frozen=True, slots=True)
class Edge:
    """
    Say how a state was first reached.

    Attributes:
        before: The state before.
        step: What happened in it.
        outcome: How that ended.
        names: How values of keys are called since.
    """

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
        before: Of each state, those from which it is reached, each with the tool that is called; None for a
            time that passes, `PERHAPS` for one that may not pass so, "" for anything else.
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
    before: list[set[tuple[int, str | None]]] = field(default_factory=list)
    whole: bool = False
    edges: list[Edge | None] = field(default_factory=list)

    def reaching(
        self, goals: Iterable[int], by: Collection[str | None] | None = None, *, surely: bool = False
    ) -> dict[int, tuple[int, str | None] | None]:
        """
        Find the states from which one of some states is reached, these included.

        Args:
            goals: The states.
            by: Tools whose calls alone are made, None among them for time that passes; None for all.
            surely: Whether each session that is in such a state has to be able to.

        Returns:
            Of each state, the next one on a shortest way, and how that is reached.
        """
        seen: dict[int, tuple[int, str | None] | None] = dict.fromkeys(goals)
        waiting = deque(seen)
        while waiting:
            after = waiting.popleft()
            for state, how in self.before[after]:
                if state not in seen and _goes(how, by, surely=surely):
                    seen[state] = after, how
                    waiting.append(state)
        return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """
    Say what is looked for: a call of some tools of which something is said, or how a session ends.

    Attributes:
        tools: The tools.
        of_call: Says how far what is said of such a call is from it, and
        of_end: the same of the contracts that are unmet at an end. It is there at 0.
        contract: The contract that it is about, if it is about one.
    """

    tools: Collection[str]
    contract: int | None = None
    of_call: Callable[[Try], int]
    of_end: Callable[[frozenset[int]], int]

    def distance(self, found: Explored, place: int) -> int:
        """Say how far a state is from it; where nothing says so, from every such call being let through."""
        state, world = found.states[place], found.world
        near, least = self.of_end(found.unmet[place]), dict[str, int]()
        for step in world.calls_of(self.tools, state):
            assert step.kind is not None
            tried, counted = world.tried(state, step, self.contract)
            near = min(near, self.of_call(tried))
            if not near:
                return 0
            # Calls that the contract does not count bring it nowhere.
            far = len(tried.blocking) + (0 if counted else _NOT_COUNTED)
            least[step.kind.tool] = min(least.get(step.kind.tool, far), far)
        return min(near, 1 + sum(least.values()))


Look: TypeAlias = Callable[[Explored, int, Transition | None, Try | None], bool]
"""Looks at a state, and at a call in it and what is said of it, and tells whether the search is to stop."""


def explore(world: World, budget: Budget, look: Look | None = None, aim: Aim | None = None) -> Explored:
    """
    Search the states that sessions can reach, as far as the budget allows.

    Args:
        world: What is searched: one machine.
        budget: How much is searched.
        look: Looks at each state, and at each call in it; the search stops once it gives True.
        aim: What is looked for. States that are near to it come first then, not those near the beginning.
    """
    search = _Search(world, budget, look, aim)
    search.run()
    return search.found


class _Search:
    """Search states, those first that come first in the queue."""

    def __init__(self, world: World, budget: Budget, look: Look | None, aim: Aim | None) -> None:
        self.found = Explored(world)
        (self._machine,) = world.machines
        self._budget = budget
        self._look = look
        self._aim = aim
        self._places: dict[Beside, int] = {}
        self._queue: list[_Waiting] = []
        self._known: set[tuple[int, Any]] = set()
        self._own = frozenset() if aim is None else self._machine.places_of(aim.contract)
        self._known_own: set[Any] = set()

    def run(self) -> None:
        """Search until nothing is left, or the budget or the look says to stop."""
        self._reach(self.found.world.first(), None)
        while self._queue:
            waiting = heapq.heappop(self._queue)
            if waiting.steps is None:
                if not self._budget.take():
                    return
                if self._look is not None and self._look(self.found, waiting.place, None, None):
                    return
                waiting.steps = self.found.world.steps(self.found.states[waiting.place])
            if self._expand(waiting, waiting.steps):
                return
        self.found.whole = True

    def _expand(self, waiting: _Waiting, steps: Iterator[Transition]) -> bool:
        """Look at what can happen in a state until there is a nearer one; tell whether the search stops."""
        found, place = self.found, waiting.place
        state = found.states[place]
        for step in steps:
            if self._budget.late:
                return True
            tries, ends = found.world.answer(state, step)
            if step.kind is not None and not step.ended:
                (tried,) = tries
                _note(found, place, step, tried)
                if self._look is not None and self._look(found, place, step, tried):
                    return True
            for outcome, after, names in ends:
                self._reach(after, Edge(place, step, outcome, names))
            if self._aim is not None and self._queue and self._queue[0].order < waiting.order:
                heapq.heappush(self._queue, waiting)
                return False
        return False

    def _reach(self, state: Beside, edge: Edge | None) -> None:
        place = self._places.get(state)
        if place is None:
            found = self.found
            place = self._places[state] = len(found.states)
            found.states.append(state)
            found.edges.append(edge)
            found.unmet.append(self._machine.unmet(state[0]))
            found.before.append(set())
            heapq.heappush(self._queue, _Waiting((*self._rank(place), place), place))
        if edge is not None:
            self.found.before[place].add((edge.before, _how(edge.step)))

    def _rank(self, place: int) -> tuple[int, int]:
        """
        Say how early a state is looked at: what holds something new first, then what is nearer.

        Whoever only goes nearer stays where one more call brings nothing; what nobody has remembered
        so far, or not together, is a way out, above all in the memory of the contract that is asked about.
        New is what no state as near has held.
        """
        if self._aim is None:
            return 0, 0
        (state,) = self.found.states[place]
        distance = self._aim.distance(self.found, place)
        held: list[tuple[int, tuple[Any, ...]]] = [
            (number, inner) for number, cell in enumerate(state.cells) for inner in _parts_of(cell)
        ]
        own = {(number, inner[-1:]) for number, inner in held if number in self._own} - self._known_own
        if own:
            self._known_own |= own
            return 0, distance
        held += [(-1, entry) for entry in state.entries] + [(-2, flight) for flight in state.flying]
        for count in (1, 2):
            fresh = {(distance, some) for some in itertools.combinations(held, count)} - self._known
            if fresh:
                self._known |= {(distance, some) for n in (1, 2) for some in itertools.combinations(held, n)}
                return count, distance
        return 3, distance


@dataclass(slots=True, order=True)
class _Waiting:
    """A state that is to be looked at, and what is left of it."""

    order: tuple[int, ...]
    place: int = field(compare=False)
    steps: Iterator[Transition] | None = field(default=None, compare=False)


def _how(step: Transition) -> str | None:
    if step.kind is not None:
        return "" if step.ended else step.kind.tool
    if step.entry is not None:
        return ""
    return None if step.surely else PERHAPS


def _goes(how: str | None, by: Collection[str | None] | None, *, surely: bool) -> bool:
    if how == PERHAPS:
        return not surely and (by is None or None in by)
    return by is None or how == "" or how in by


def _parts_of(cell: Any) -> Iterable[tuple[Any, ...]]:
    """Give what a cell holds of each value of its key, or all that it holds."""
    of_each = isinstance(cell, tuple) and cell and all(isinstance(part, tuple) for part in cell)
    return cell if of_each else ((cell,),)


def _note(found: Explored, place: int, step: Transition, tried: Try) -> None:
    assert step.kind is not None
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


def _note_let(found: Explored, tool: str, place: int, step: Transition) -> None:
    known = found.let.setdefault(tool, [])
    if len(known) < _MOST_LET:
        known.append((place, step))


def edges_to(known: Sequence[Edge | None], place: int) -> list[Edge]:
    """Give the way to a state, from the beginning, by how each state was first reached."""
    edges: list[Edge] = []
    edge = known[place]
    while edge is not None:
        edges.append(edge)
        edge = known[edge.before]
    return edges[::-1]
