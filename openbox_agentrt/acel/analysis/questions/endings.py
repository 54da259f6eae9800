"""
Find whether sessions can end well, asked of each obligation by as few contracts as it takes.

Calls of a few tools meet an obligation, and only contracts about those tools can refuse them. So all that
sessions do to those contracts is searched, whatever others say, and then whether calls of these tools alone
get from each state to one where the obligation is met. Obligations that such calls do not touch stay met.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..budget import Budget
from ..rules.components import names_near
from .searched import SearchResult, Subject, has_values, values_owed

__all__ = ("Endings", "ObligationAnswer")

Search: TypeAlias = Callable[[Sequence[int], Sequence[str], Budget, int], SearchResult]
"""Search some contracts with the calls of some tools, and with so many more values of each key."""

_Tools: TypeAlias = "frozenset[str | None]"


@dataclass(frozen=True, slots=True)
class ObligationAnswer:
    """
    Say how some obligations are met.

    Attributes:
        places: Their contracts.
        tools: The tools whose calls meet them, None among them for time that passes.
        found: Where sessions may not get there, the search that says so.
        open: Where it was not decided, the search that did not suffice.
    """

    places: frozenset[int]
    tools: _Tools = frozenset()
    found: SearchResult | None = None
    open: SearchResult | None = None

    @property
    def is_met(self) -> bool:
        """Tell whether nothing speaks against their being met."""
        return self.found is None and self.open is None


class Endings:
    """
    Ask how sessions end.

    Args:
        subject: The contracts.
        touched: Of each tool, the contracts that its calls are about.
        calls: Of each contract, the tools whose calls it is about.
        search: What searches some of them.
    """

    def __init__(
        self,
        subject: Subject,
        touched: Mapping[str, Sequence[int]],
        calls: Mapping[int, Sequence[str]],
        search: Search,
    ) -> None:
        self._subject = subject
        self._touched = touched
        self._calls = calls
        self._search = search

    def of(self, places: Collection[int], budget: Budget) -> Iterator[ObligationAnswer]:
        """Ask of some obligations, together of those that the same calls touch."""
        waiting = [ObligationAnswer(frozenset({place})) for place in places]
        done: list[ObligationAnswer] = []
        while waiting:
            ending = self._asked(waiting[0], budget.part(len(waiting)))
            near = [e for e in (*done, *waiting[1:]) if e.is_met and self._touch(ending, e)]
            near = near if ending.is_met else []
            done = [other for other in done if other not in near]
            waiting = [other for other in waiting[1:] if other not in near]
            if near:
                every = [ending, *near]
                together = frozenset().union(*(some.places for some in every))
                waiting.append(ObligationAnswer(together, frozenset().union(*(some.tools for some in every))))
            else:
                done.append(ending)
        yield from done

    def _touch(self, one: ObligationAnswer, other: ObligationAnswer) -> bool:
        """Tell whether what meets one of two could leave the other unmet."""
        return any(
            tool is None or not some.places.isdisjoint(self._touched[tool])
            for tools, some in ((one.tools, other), (other.tools, one))
            for tool in tools
        )

    def _asked(self, ending: ObligationAnswer, budget: Budget) -> ObligationAnswer:
        tools, more = ending.tools, 0
        in_the_way: frozenset[int] = frozenset()
        while True:
            about = (place for tool in tools if tool is not None for place in self._touched[tool])
            watched = sorted({*ending.places, *about, *in_the_way})
            some = self._search(watched, names_near(self._calls, watched), budget, more)
            if not some.whole:
                return ObligationAnswer(ending.places, open=some)
            stuck = self._stuck(some, ending.places, tools)
            if stuck and not more and stuck[0] is None:
                # They may only lack values that nobody has seen.
                more = values_owed(self._subject, some)
                continue
            if not stuck or stuck[0] is None:
                return ObligationAnswer(ending.places, tools)
            leading = self._leading_on(some, ending.places, tools, stuck[0])
            way = self._subject.refusing(some.trace(stuck[0])) - set(watched)
            if not leading and not way:
                return ObligationAnswer(ending.places, tools, some)
            tools |= leading
            in_the_way |= frozenset() if leading else way

    def _stuck(self, some: SearchResult, places: Collection[int], tools: _Tools) -> list[int | None]:
        """Find the states from which calls of some tools lead nowhere; None for such without new values."""
        states = some.stuck(_own(some, places), tools, surely=True)
        found = (state if has_values(self._subject, some, state) else None for state in states)
        return sorted(found, key=lambda state: state is None)

    def _leading_on(
        self, some: SearchResult, places: Collection[int], tools: _Tools, stuck: int
    ) -> frozenset[str | None]:
        """Find tools whose calls lead on from a state to where others do."""
        goals = some.met(_own(some, places))
        good = some.found.reaching(goals, tools, surely=True)
        ways = some.found.reaching(goals, surely=True)
        found: set[str | None] = set()
        way = ways.get(stuck)
        while way is not None and stuck not in good:
            stuck, how = way
            found |= set() if how == "" else {how}
            way = ways[stuck]
        return frozenset(found)


def _own(some: SearchResult, places: Iterable[int]) -> frozenset[int]:
    """Give the positions in a search of some of its contracts."""
    return frozenset(map(some.contracts.index, places))
