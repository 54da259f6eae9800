"""Analyse rules: search what sessions under them can do, as far as there is time, and say what is odd."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..contracts.base import TemporalContract
from ..contracts.declaration import Declaration
from ..rulesfile import Rules
from .alphabet import alphabet_of
from .budget import Budget
from .components import Component, components, remembers, taken_apart, touched, values_needed
from .conclusions import (
    SearchResult,
    Subject,
    end_findings,
    source_findings,
    tool_findings,
    watch_findings,
)
from .findings import KINDS, Analysis, Finding, Named
from .inspection import inspected
from .known import why_unknown
from .machine import Machine
from .redundancy import idle_contracts
from .search import explore
from .tool_names import names_of
from .world import World

__all__ = ("MAX_STATES", "analyse", "named_contracts")

MAX_STATES = 200_000
_MOST_TOGETHER = 200
_SHARES = 8


def analyse(
    rules: Rules | Sequence[TemporalContract],
    *,
    tools: Collection[str] | None = None,
    lines: Sequence[int | None] = (),
    seconds: float = 10.0,
    states: int = MAX_STATES,
) -> Analysis:
    """
    Find what is probably not meant in rules, each with a shortest trace that shows it.

    Calls are made one after another. What was not decided in the time, or is not analysed, is named; nothing
    is ever called safe.

    Args:
        rules: The rules, or contracts.
        tools: The names of the tools that there are, if they are known.
        lines: The lines of the contracts in their file.
        seconds: How long is searched.
        states: How many states of sessions are searched.
    """
    every = list(rules.contracts if isinstance(rules, Rules) else rules)
    named = named_contracts(every, lines)
    unknown = {place: why for place, contract in enumerate(every) if (why := why_unknown(contract))}
    known = [c for p, c in enumerate(every) if p not in unknown and isinstance(c, Declaration)]
    subject = Subject(
        known,
        [name for place, name in enumerate(named) if place not in unknown],
        every,
        rules.state if isinstance(rules, Rules) else {},
    )
    work = _Work(subject, Budget(seconds, states), tools or ())
    findings = list(inspected(every, named, tools))
    # Of a pattern that is in no text, all is said.
    said = {f.contracts for f in findings if f.kind == "matcher-matches-nothing"}
    findings += [f for f in work.findings() if f.contracts[:1] not in said]
    return Analysis(
        findings=tuple(sorted(findings, key=lambda finding: (KINDS.index(finding.kind), finding.line or 0))),
        undecided=(*work.undecided, *subject.unshown),
        not_analysed=tuple(f"{named[place]}: {why}" for place, why in unknown.items()),
        states=work.states,
    )


def named_contracts(contracts: Sequence[TemporalContract], lines: Sequence[int | None]) -> list[Named]:
    """Name contracts as reports do, by their ids where they have some."""
    known = [*lines, *[None] * (len(contracts) - len(lines))]
    return [
        Named(name=contract.id or contract.spec, spec=contract.spec, line=line)
        for contract, line in zip(contracts, known, strict=True)
    ]


class _Work:
    """
    Search contracts part by part.

    Attributes:
        undecided: What was not decided.
        states: How many states were tried.
    """

    def __init__(self, subject: Subject, budget: Budget, tools: Collection[str]) -> None:
        self._subject = subject
        self._budget = budget
        self.undecided: list[str] = []
        self.states = 0
        self._names, whole = names_of(subject.contracts, tools, budget.part(4))
        if not whole:
            self.undecided.append("which tools fit which patterns over names: there are too many patterns")
        self._touched = touched(subject.contracts, self._names)

    def findings(self) -> Iterator[Finding]:
        """Search everything, and conclude."""
        searched = self._search_all()
        yield from tool_findings(self._subject, searched, self._names)
        yield from source_findings(self._subject, searched, self._names)
        yield from watch_findings(self._subject, searched)
        for some in searched:
            yield from end_findings(self._subject, some)
        yield from idle_contracts(self._subject, searched, self._search_some, self._budget)

    def _search_all(self) -> list[SearchResult]:
        every = range(len(self._subject.contracts))
        waiting = components(self._subject.contracts, self._touched, every)
        # The small ones first, so that what is too large takes time from nobody.
        waiting.sort(key=lambda component: (len(component.contracts), component.contracts))
        searched = []
        while waiting:
            component = waiting.pop(0)
            some = self._search(component, self._budget.part(min(_SHARES, len(waiting) + 2)))
            if some is None or not some.found.whole:
                parts = taken_apart(component, self._subject.contracts, self._touched)
                self._leave_open(component, parts)
                if not self._budget.spent:
                    waiting = [*parts, *waiting]
            if some is not None:
                searched.append(some)
        return searched

    def _search(self, component: Component, budget: Budget) -> SearchResult | None:
        lasting = sum(remembers(self._subject.contracts[place]) for place in component.contracts)
        if lasting > _MOST_TOGETHER or budget.spent:
            return None
        return self._explored(component, component.contracts, budget)

    def _search_some(self, places: Sequence[int], among: Sequence[int], budget: Budget) -> SearchResult:
        names = tuple(name for name, about in self._touched.items() if any(p in about for p in places))
        return self._explored(Component(tuple(places), names), among, budget)

    def _explored(self, component: Component, among: Sequence[int], budget: Budget) -> SearchResult:
        some = [self._subject.contracts[place] for place in component.contracts]
        more = [self._subject.contracts[place] for place in among]
        alphabet = alphabet_of(more, component.names, budget.part(2))
        machine = Machine(some, alphabet, self._subject.state)
        found = explore(World([machine], alphabet, values=values_needed(more)), budget)
        self.states += len(found.states)
        return SearchResult(component.contracts, found, found.whole and alphabet.whole)

    def _leave_open(self, component: Component, parts: Sequence[Component]) -> None:
        names = [self._subject.named[place].name for place in component.contracts]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        how = "together; parts of them were searched" if parts else "within the time"
        self.undecided.append(f"what {shown} do {how}")
