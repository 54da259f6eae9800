"""
One question about rules at a time, each answered by as few contracts as it takes.

Whether a tool is ever let through, or a contract ever decides, is asked of the contracts that it is about.
With fewer contracts sessions can do no less, so what is impossible then is impossible. What is possible is
tried on a session of all contracts; what stands in its way there is taken in, and the question asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..budget import Budget
from ..conditions.followed import open_parts
from ..rules.components import names_near
from ..search.explore import Explored, Look, row_of, way_to
from ..search.state import Transition, Try
from ..search.trace_row import TraceRow
from .conclusions import SearchResult, Subject
from .finding import name_of
from .unshown import is_shown
from .witness import played

__all__ = ("Possibility", "Questions")

_MOST_STATES = 5_000
_MOST_UNSHOWN = 20

Search: TypeAlias = Callable[[Sequence[int], Sequence[str], Budget, Look], SearchResult]
"""Searches some contracts with the calls of some tools until a look stops it."""


@dataclass(frozen=True, slots=True)
class Possibility:
    """
    Give the answer to a question.

    Attributes:
        possible: Whether it can happen; None if that was not decided.
        found: Where it cannot, the search that shows it.
    """

    possible: bool | None
    found: SearchResult | None = None


class Questions:
    """
    Ask about some contracts.

    Args:
        subject: The contracts.
        calls: Of each contract, the tools whose calls it is about.
        search: What searches some of them.
    """

    def __init__(self, subject: Subject, calls: Mapping[int, Sequence[str]], search: Search) -> None:
        self._subject = subject
        self._calls = calls
        self._search = search
        self._is_open = any(map(open_parts, subject.contracts))
        self._named: dict[str, set[int]] = {}
        for place, contract in enumerate(subject.contracts):
            self._named.setdefault(name_of(contract), set()).add(place)

    def is_let_through(self, tool: str, budget: Budget) -> Possibility:
        """Ask whether a call of a tool is ever let through."""
        if tool in self._subject.examples.let:
            return Possibility(True)

        def wanted(step: Transition | None, tried: Try | None, _: frozenset[int]) -> bool:
            of_tool = step is not None and step.kind is not None and step.kind.tool == tool
            return of_tool and tried is not None and tried.admitted

        return self._ask(frozenset(), (tool,), wanted, budget)

    def decides(self, place: int, budget: Budget) -> Possibility:
        """Ask whether a contract ever decides: it alone refuses, or would if it watches."""
        contract = self._subject.contracts[place]
        if name_of(contract) in self._subject.examples.decided:
            return Possibility(True)
        watches = contract.mode != "enforce"

        def wanted(step: Transition | None, tried: Try | None, unmet: frozenset[int]) -> bool:
            if watches:
                return place in unmet if tried is None else place in tried.broken and tried.admitted
            objecting = unmet if tried is None else tried.blocking
            return place in objecting and not any(
                other != place and self._subject.replaces(other, place) for other in objecting
            )

        return self._ask(frozenset({place}), (), wanted, budget)

    def _ask(
        self,
        first: frozenset[int],
        tools: Sequence[str],
        wanted: Callable[[Transition | None, Try | None, frozenset[int]], bool],
        budget: Budget,
    ) -> Possibility:
        watched = first
        while not budget.spent:
            ends = "ok" if tools else "refused"
            trying = _Trying(self._subject, self._named, sorted(watched), wanted, self._is_open, ends)
            names = list(dict.fromkeys((*tools, *names_near(self._calls, sorted(watched)))))
            some = self._search(sorted(watched), names, budget.at_most(_MOST_STATES), trying)
            if trying.possible:
                return Possibility(True)
            if not trying.in_the_way:
                shows = some.whole and not trying.unshown
                return Possibility(False, some) if shows else Possibility(None)
            watched |= trying.in_the_way
        return Possibility(None)


class _Trying:
    """
    Look for something in a search, and try it on a session of all contracts.

    Attributes:
        possible: Whether it was found, and nothing that can be analysed stands in its way.
        in_the_way: Contracts that were not searched and stand in its way.
        unshown: How often it was found, and no session showed it though none of these stood in its way.
    """

    def __init__(
        self,
        subject: Subject,
        named: Mapping[str, set[int]],
        watched: Sequence[int],
        wanted: Callable[[Transition | None, Try | None, frozenset[int]], bool],
        is_open: bool,
        ends: str,
    ) -> None:
        self._subject = subject
        self._is_open = is_open
        self._ends = ends
        self.unshown = 0
        self._named = named
        self._watched = watched
        self._wanted = wanted
        self.possible = False
        self.in_the_way: frozenset[int] = frozenset()

    def __call__(self, found: Explored, state: int, step: Transition | None, tried: Try | None) -> bool:
        if tried is not None:
            tried = Try(self._places(tried.broken), self._places(tried.blocking), tried.admitted)
        if self._wanted(step, tried, self._places(found.unmet[state])):
            self._try(found, state, step)
        return self.possible or bool(self.in_the_way) or self.unshown >= _MOST_UNSHOWN

    def _places(self, own: Iterable[int]) -> frozenset[int]:
        return frozenset(self._watched[place] for place in own)

    def _try(self, found: Explored, state: int, step: Transition | None) -> None:
        rows, called = way_to(found, state)
        last = TraceRow(kind="end") if step is None else row_of(found.world, step, called, "ok")
        done = played([*rows, last], self._subject.every, self._subject.state)
        names: set[str] = set()
        for row, happened in zip(rows, done, strict=False):
            names |= set(happened.by) if happened.outcome != row.outcome else set()
        # Of the last row, whoever else objects.
        names |= set(done[-1].by) if step is None or done[-1].outcome == "refused" else set()
        places = frozenset().union(*(self._named.get(name, ()) for name in names))
        enforced = {p for p in places if self._subject.contracts[p].mode == "enforce"}
        self.in_the_way = frozenset(enforced) - frozenset(self._watched)
        if not self.in_the_way:
            rows.append(last)
            ends = "ok" if step is None else self._ends
            self.possible = not self._is_open or is_shown(self._subject, rows, ends, ())
            self.unshown += not self.possible
