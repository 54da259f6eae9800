"""
Investigate contracts part by part, as far as there is time.

Those that have to do with one another are searched together where they are few, and asked about one after the
other where they are not; what is left open is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from ..contracts.declaration import Declaration
from ..match.matchers import is_glob
from .budget import Budget
from .calls.alphabet import alphabet_of
from .findings.bad_endings import end_findings, is_unsure
from .findings.finding import Finding
from .findings.left_open import DECIDES, ENDS, LeftOpen, either_way
from .findings.never_let_through import source_findings, tool_findings, tools_shut
from .findings.redundant_contracts import idle_contracts
from .findings.shadow_halts import watch_findings
from .findings.unshown import unshown_contracts, unshown_tools
from .named import name_of
from .questions.endings import Endings
from .questions.questions import Possibility, Questions
from .questions.searched import FEW_VALUES, NO_TIME, WAITS, SearchResult, Subject, is_timed
from .rules.components import (
    MOST_VALUES,
    Component,
    components,
    names_about,
    names_near,
    remembers,
    touched,
    values_needed,
)
from .rules.tool_names import names_of, tools_in
from .search.engine_machine import Machine
from .search.explore import Aim, Explored, Look, explore
from .search.next_steps import Time, World

__all__ = ("Investigation",)

# So many contracts that remember something are searched together before one is asked after the other.
_FEW = 6
_MOST_STATES = 3_000
_QUICK_SHARES = 6
_SHARES = 8


class Investigation:
    """
    Search contracts part by part.

    Attributes:
        left: What was not decided.
        states: How many states were tried.
    """

    def __init__(self, subject: Subject, budget: Budget, tools: Collection[str]) -> None:
        self._subject = subject
        self._budget = budget
        self.states = 0
        self._names, self._has_all_names = names_of(subject.contracts, tools, budget.part(4))
        self._touched = touched(subject.contracts, self._names)
        self._calls = names_about(self._touched)
        self.questions = Questions(subject, self._calls, self._look_into)
        self.left = LeftOpen(subject.named, has_all_names=self._has_all_names)
        # Where sessions may not end well.
        self._ends: list[SearchResult] = []

    def findings(self) -> Iterator[Finding]:
        """Search everything, and conclude."""
        searched = self._search_all()
        shut = tools_shut(self._subject, searched, self._names)
        yield from tool_findings(self._subject, shut)
        yield from source_findings(self._subject, searched, self._names)
        yield from watch_findings(self._subject, searched)
        for some in self._ends:
            yield from end_findings(self._subject, some, self._search_with_more)
        yield from idle_contracts(
            self._subject, searched, self._calls, shut, self._search_some, self._budget, self._leave_idle
        )

    def _search_all(self) -> list[SearchResult]:
        every = range(len(self._subject.contracts))
        waiting = components(self._subject.contracts, self._touched, every)
        # The small ones first, so that what is too large takes time from nobody.
        waiting.sort(key=lambda component: (len(component.contracts), component.contracts))
        searched: list[SearchResult] = []
        for number, component in enumerate(waiting):
            if self._budget.late:
                self._leave(component)
                continue
            left = len(waiting) - number
            searched += self._search(component, self._budget.part(min(_SHARES, left)))
        return searched

    def _leave(self, component: Component) -> None:
        """Name what there was no time to search."""
        tools = [name for name in component.names if self._names[name]]
        ending = [p for p in component.contracts if self._subject.contracts[p].at_end]
        self.left.add_tools(tools, because=NO_TIME)
        self.left.add(DECIDES, component.contracts, because=NO_TIME)
        self.left.add(ENDS, ending, because=NO_TIME)

    def _search(self, component: Component, budget: Budget) -> Iterator[SearchResult]:
        """Search contracts together where they are few, and else ask of one after the other."""
        contracts = self._subject.contracts
        lasting = sum(remembers(contracts[place]) for place in component.contracts)
        because = ""
        if lasting <= _FEW:
            some = self._explored(component, component.contracts, budget.part(4).at_most(_MOST_STATES))
            if some.whole and self._is_open_in_time(some):
                part = budget.part(4).at_most(_MOST_STATES)
                some = self._in_zone(some, component, component.contracts, part)
            self._subject.note_ways(some)
            yield some
            if some.whole:
                self._ends.append(some)
                self._leave_unshown(some)
                return
            because = _lacking(some)
        self._search_ends([p for p in component.contracts if _obliges(contracts[p])], budget.part(2))
        yield from self._ask(component, budget, because)

    def _ask(self, component: Component, budget: Budget, because: str) -> Iterator[SearchResult]:
        """Ask of each tool if it is ever let through, and of each contract if it ever decides."""
        tools: list[str] = [name for name in component.names if self._names[name]]
        places: list[int] = list(component.contracts)
        answers: dict[str | int, Possibility] = {}
        # What takes long is asked once more when all that does not was.
        for quick in (True, False):
            asked: list[tuple[str | int, Callable[..., Possibility]]] = [
                *((name, partial(self.questions.is_let_through, name)) for name in tools),
                *((place, partial(self.questions.decides, place)) for place in places),
            ]
            answers = {
                about: ask(budget.part(_QUICK_SHARES if quick else len(asked) - n), quick=quick)
                for n, (about, ask) in enumerate(asked)
            }
            yield from (answer.found for answer in answers.values() if answer.found is not None)
            tools = [name for name in tools if answers[name].possible is None]
            places = [place for place in places if answers[place].possible is None]
        near = {place: self._calls.get(place, ()) for place in places if answers[place].unshown}
        open_tools = self._either_way_of(tool for tool in tools if answers[tool].unshown)
        open_places = self._either_way_of(tool for of in near.values() for tool in of)
        for tool in tools:
            why = (open_tools or WAITS) if answers[tool].unshown else answers[tool].why
            self.left.add_tools([tool], because=because or why)
        for place in places:
            why = (open_places or WAITS) if place in near else answers[place].why
            self.left.add(DECIDES, [place], because=because or why)

    def _either_way_of(self, tools: Iterable[str]) -> str:
        """Say what is taken either way of the conditions that are asked of calls of some tools."""
        places = dict.fromkeys(place for tool in tools for place in self._touched[tool])
        return either_way(self._subject.contracts[place] for place in places)

    def _search_ends(self, obliging: Sequence[int], budget: Budget) -> None:
        """Search how sessions end, of each obligation for itself."""
        for ending in Endings(self._subject, self._touched, self._calls, self._search_of).of(
            obliging, budget
        ):
            self._ends += [] if ending.found is None else [ending.found]
            if ending.open is not None:
                self.left.add(ENDS, sorted(ending.places), because=ending.open.why_not_whole)

    def _leave_unshown(self, some: SearchResult) -> None:
        """Name what is possible only if a condition that is taken either way says so."""
        tools = list(unshown_tools(self._subject, some))
        places = list(unshown_contracts(self._subject, some))
        either = either_way(self._subject.contracts[place] for place in some.contracts) or WAITS
        self.left.add_tools(tools, because=either)
        self.left.open.update(p for name in tools for p in self._touched[name] if p in some.contracts)
        self.left.add(DECIDES, places, because=either)

    def _leave_idle(self, place: int) -> None:
        """Name what never decided, where more values of a key could have let it."""
        contract = self._subject.contracts[place]
        if place not in self.left.open and name_of(contract) not in self._subject.examples.decided:
            self.left.add(DECIDES, [place], because=FEW_VALUES)

    def _is_open_in_time(self, some: SearchResult) -> bool:
        """Tell whether it depends on times that are taken either way what there is to say."""
        if not is_timed(some):
            return False
        obliging = [o for o, place in enumerate(some.contracts) if _obliges(self._subject.contracts[place])]
        return (
            any(unshown_tools(self._subject, some))
            or next(unshown_contracts(self._subject, some), None) is not None
            or is_unsure(self._subject, some, obliging)
        )

    def _in_zone(
        self,
        some: SearchResult,
        component: Component,
        among: Sequence[int],
        budget: Budget,
        *,
        more: int = 0,
    ) -> SearchResult:
        """Search once more, with the times that sessions can have alone, as far as the budget allows."""
        exact = self._explored(component, among, budget, more=more, time="in a zone")
        return exact if exact.whole else some

    def _look_into(
        self,
        places: Sequence[int],
        names: Sequence[str],
        budget: Budget,
        look: Look | None,
        aim: Aim | None,
        time: Time,
    ) -> SearchResult:
        component = Component(tuple(places), tuple(names))
        return self._explored(component, places, budget, look, aim, time=time)

    def _search_of(
        self, places: Sequence[int], names: Sequence[str], budget: Budget, more: int
    ) -> SearchResult:
        component = Component(tuple(places), tuple(names))
        some = self._explored(component, places, budget.part(2), more=more)
        own = range(len(places))
        if some.whole and is_unsure(self._subject, some, own):
            return self._in_zone(some, component, places, budget.at_most(_MOST_STATES), more=more)
        return some

    def _search_some(self, places: Sequence[int], among: Sequence[int], budget: Budget) -> SearchResult:
        component = Component(tuple(places), names_near(self._calls, places))
        some = self._explored(component, among, budget)
        if some.whole and is_timed(some):
            return self._in_zone(some, component, among, budget.at_most(_MOST_STATES))
        return some

    def _search_with_more(self, some: SearchResult, more: int) -> SearchResult | None:
        contracts = [self._subject.contracts[place] for place in some.contracts]
        if values_needed(contracts) + more > MOST_VALUES or self._budget.late:
            return None
        component = Component(some.contracts, tuple(sorted(some.names)))
        found = self._explored(component, some.contracts, self._budget.part(4), more=more)
        return found if found.whole else None

    def _explored(
        self,
        component: Component,
        among: Sequence[int],
        budget: Budget,
        look: Look | None = None,
        aim: Aim | None = None,
        *,
        more: int = 0,
        time: Time = "freely",
    ) -> SearchResult:
        some = [self._subject.contracts[place] for place in component.contracts]
        about = [self._subject.contracts[place] for place in among]
        alphabet = alphabet_of(about, component.names, budget.part(2), few=aim is not None)
        machine = Machine(some, alphabet, self._subject.state)
        world = World([machine], alphabet, values=values_needed(about) + more, time=time)
        found = explore(world, budget, look, aim)
        self.states += len(found.states)
        # Where names are missing, calls are, and what never happens without them may happen all the same.
        named = self._has_all_names or not any(map(_fits_names, about))
        why = _why_not_whole(found, budget, alphabet_whole=alphabet.whole, named=named)
        return SearchResult(component.contracts, frozenset(component.names), found, why)


def _obliges(contract: Declaration) -> bool:
    """Tell whether something has to be met at the end of a session."""
    return bool(contract.at_end) and contract.mode == "enforce"


def _fits_names(contract: Declaration) -> bool:
    """Tell whether a contract has a pattern over names of tools."""
    return any(is_glob(name) for role in contract.roles for name in tools_in(role.selector.form()))


def _why_not_whole(found: Explored, budget: Budget, *, alphabet_whole: bool, named: bool) -> str:
    """Say why a search left something out; nothing if it did not."""
    left_out = (
        (not found.whole and budget.late, "the time was up before all was searched"),
        (not found.whole, "there are more states than are searched"),
        (found.world.lacks_values, FEW_VALUES),
        (not alphabet_whole, "there are more kinds of calls than are tried"),
        (found.world.is_crowded, "more moments matter than are followed"),
        (not named, "there are too many patterns over names of tools"),
    )
    return next((why for is_so, why in left_out if is_so), "")


def _lacking(some: SearchResult) -> str:
    """Say that a search had too few values of a key, if it had time for all others."""
    return FEW_VALUES if some.found.whole and some.found.world.lacks_values else ""
