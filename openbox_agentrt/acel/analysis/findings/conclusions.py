"""
From the states that were searched to what is told about rules.

What is impossible in a search of some contracts is impossible under all of them, since more contracts let
through no more. What is possible is shown by a trace, which a real session of all contracts has to confirm.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ...._plain.amounts import show
from ...contracts.declaration import Declaration
from ..conditions.followed import calls_counted
from ..rules.analysable import guards_of
from ..rules.found_values import sources_of
from ..rules.subject import Surroundings
from ..search.explore import Explored, row_of, way_to
from ..search.state import Transition
from ..search.trace_row import TraceRow
from .finding import Finding, Named, name_of
from .shown_by_tests import Examples
from .witness import UNSHOWN, confirmed, played

__all__ = (
    "FEW_VALUES",
    "SearchResult",
    "Subject",
    "end_findings",
    "has_values",
    "may_need_more_values",
    "source_findings",
    "tool_findings",
    "values_owed",
    "watch_findings",
)


FEW_VALUES = "it may take more values of a key than were tried"
_MOST_TRAPS = 20


@dataclass(frozen=True, slots=True)
class Subject:
    """
    The rules that are looked at.

    Attributes:
        contracts: Those that can be analysed.
        named: How each is named.
        every: All contracts, for real sessions.
        state: The state that a session begins with.
        unshown: What the search found, and no session shows.
        examples: What is known to be possible.
        surroundings: Under which sessions are tried.
    """

    contracts: Sequence[Declaration]
    named: Sequence[Named]
    every: Sequence[Any]
    state: Mapping[str, Any]
    unshown: list[str] = field(default_factory=list)
    examples: Examples = field(default_factory=Examples)
    surroundings: Sequence[Surroundings] = (Surroundings(),)

    def shown(self, rows: Sequence[TraceRow], by: Iterable[int]) -> tuple[TraceRow, ...] | None:
        """Let a session of all contracts show a trace, to whose last row one of some contracts objects."""
        names = {name_of(self.contracts[place]) for place in by}
        found = (confirmed(rows, self.every, self.state, by=name) for name in sorted(names))
        return next((trace for trace in found if trace is not None), None)

    def refusing(self, rows: Sequence[TraceRow]) -> frozenset[int]:
        """Find the contracts for which a session of all contracts does not go along with a trace."""
        done = played(rows, self.every, self.state)
        named = {
            name
            for row, happened in zip(rows, done, strict=True)
            if row.outcome != happened.outcome
            for name in happened.by
        }
        return frozenset(p for p, contract in enumerate(self.contracts) if name_of(contract) in named)

    def replaces(self, place: int, other: int) -> bool:
        """Tell whether a contract that objects does all that another one does which objects too."""
        mine, theirs = self.contracts[place], self.contracts[other]
        # One that only refuses leaves the session open, and one that halts ends it.
        return mine.mode == "enforce" and (mine.on_violation == "halt" or theirs.on_violation != "halt")

    def names(self, places: Iterable[int]) -> tuple[Named, ...]:
        """Name contracts in the order of the file."""
        return tuple(self.named[place] for place in sorted(places))


@dataclass(frozen=True, slots=True)
class SearchResult:
    """
    Say which states some contracts were searched in.

    Attributes:
        contracts: Their positions.
        names: The tools whose calls were tried.
        found: The states.
        whole: Whether nothing was left out.
    """

    contracts: tuple[int, ...]
    names: frozenset[str]
    found: Explored
    whole: bool

    def place(self, own: int) -> int:
        """Give the position among all contracts of one that was searched."""
        return self.contracts[own]

    def trace(self, place: int, step: Transition | None = None) -> list[TraceRow]:
        """Write the way to a state, and one more step."""
        rows, called = way_to(self.found, place)
        return rows if step is None else [*rows, row_of(self.found.world, step, called, "ok")]


def tool_findings(
    subject: Subject, searched: Sequence[SearchResult], names: Mapping[str, bool]
) -> Iterator[Finding]:
    """Find the tools that no call of is ever let through, and that nothing bans on purpose."""
    denying: dict[str, list[SearchResult]] = {}
    for some in searched:
        for name in some.found.denied if some.whole else ():
            denying.setdefault(name, []).append(some)
    for name, literal in names.items():
        about = denying.get(name, [])
        shut = [some for some in about if name not in some.found.allowed]
        if not literal or not shut or _is_meant(subject, about, name):
            continue
        places, _ = _first_denial(shut[0], name)
        if shut[0].found.world.limited and any(may_need_more_values(subject.contracts[p]) for p in places):
            if name not in subject.examples.let:
                subject.unshown.append(f"whether calls of {name!r} are ever let through: {FEW_VALUES}")
            continue
        trace = subject.shown(shut[0].trace(*_first_denial(shut[0], name)[1]), places)
        yield Finding(
            kind="tool-never-allowed",
            message=f"no call of {name!r} is ever let through",
            contracts=subject.names(places),
            witness=trace,
            advice="look for contracts that contradict each other; if no call is meant to pass, say never",
            note=UNSHOWN if trace is None else _amounts_note(subject, shut[0]),
        )


def source_findings(
    subject: Subject, searched: Sequence[SearchResult], names: Iterable[str]
) -> Iterator[Finding]:
    """Find the sources of values whose calls are never let through, so that nothing comes from them."""
    shut = {
        name: some
        for some in searched
        for name in some.found.denied
        if some.whole and name not in some.found.allowed
    }
    for place, contract in enumerate(subject.contracts):
        for source in sources_of(contract) if contract.template == "came_from" else ():
            calls = [name for name in names if source.selector.on(name) is not False]
            if not calls or not all(name in shut for name in calls):
                continue
            places, first = _first_denial(shut[calls[0]], calls[0])
            trace = subject.shown(shut[calls[0]].trace(*first), places)
            yield Finding(
                kind="source-never-vouches",
                message=f"no value ever comes from {source.described()}: its calls are never let through",
                contracts=(subject.named[place], *subject.names(places - {place})),
                witness=trace,
                advice="let its calls through, or take the source out",
                note=UNSHOWN if trace is None else None,
            )


def _first_denial(some: SearchResult, name: str) -> tuple[set[int], tuple[int, Transition]]:
    """Find few contracts of which one refuses every call of a tool, and the first call that is refused."""
    denied = some.found.denied[name]
    left, blamed = list(denied), set[int]()
    while left:
        # Those first that refuse alone, and then those that refuse most.
        single = min(left, key=len)
        own = max(sorted(single), key=lambda one: sum(one in blocking for blocking in left))
        blamed.add(some.place(own))
        left = [blocking for blocking in left if own not in blocking]
    return blamed, next(iter(denied.values()))


def _is_meant(subject: Subject, about: Iterable[SearchResult], name: str) -> bool:
    """Tell whether each call of a tool breaks a contract that bans it outright."""
    for some in about:
        denied = some.found.denied[name]
        if name not in some.found.allowed and all(
            any(_bans(subject.contracts[some.place(own)]) for own in blocking) for blocking in denied
        ):
            return True
    return False


def _bans(contract: Declaration) -> bool:
    return contract.template in ("never", "only") or getattr(contract, "n", None) == 0


def watch_findings(subject: Subject, searched: Sequence[SearchResult]) -> Iterator[Finding]:
    """Find the contracts in shadow mode that would end sessions once they are in force."""
    for place, contract in enumerate(subject.contracts):
        if contract.mode != "shadow" or contract.on_violation != "halt":
            continue
        first = next((some for some in searched if place in some.contracts), None)
        fired = None if first is None else first.found.fired.get(first.contracts.index(place))
        trace = None if first is None or fired is None else subject.shown(first.trace(*fired), [place])
        if fired is not None and trace is None:
            subject.unshown.append(f"whether {subject.named[place].name} would end a session: {UNSHOWN}")
        if trace is not None:
            yield Finding(
                kind="shadow-contract-would-halt",
                message="it only watches, and once it is enforced it ends the session",
                contracts=(subject.named[place],),
                witness=trace,
                advice="leave out on_violation: halt until it is enforced, or rehearse what a halt does",
            )


MoreValues: TypeAlias = "Callable[[SearchResult, int], SearchResult | None]"
"""Searches the same with so many more values of each key; None if that is too much."""


def end_findings(subject: Subject, some: SearchResult, again: MoreValues) -> Iterator[Finding]:
    """
    Find obligations that no session can meet, and sessions that can no more meet them all.

    Where sessions that cannot end well have used up the values that are tried, it is searched with more.
    """
    if not some.whole:
        return
    enforced = {own for own, place in enumerate(some.contracts) if _is_enforced(subject, place)}
    open_ = False
    if _uses_up_values(subject, some, enforced):
        more = again(some, values_owed(subject, some))
        open_, some = more is None, some if more is None else more
    found = some.found
    hopeless = set()
    for own in sorted(frozenset().union(*found.unmet) & enforced):
        unmet = [state for state, of in enumerate(found.unmet) if own in of]
        met = [state for state, of in enumerate(found.unmet) if own not in of]
        first = next((state for state in unmet if has_values(subject, some, state)), None)
        if met and subject.contracts[some.place(own)].asked_at_end:
            # Its condition asks for it on some ways only, and those are traps.
            continue
        if first is not None and not found.reaching(met).keys() & set(unmet):
            hopeless.add(own)
            yield _obligation(subject, some, own, first)
    goals = [s for s, of in enumerate(found.unmet) if not (of & enforced) - hopeless]
    good = found.reaching(goals)
    closed = (s for s, state in enumerate(found.states) if s not in good and not state[0].shut)
    shown = (s for s in closed if has_values(subject, some, s))
    traps = list(itertools.islice(shown, _MOST_TRAPS))
    for trap in traps:
        finding = _trap(subject, some, trap, (found.unmet[trap] & enforced) - hopeless)
        if finding is not None:
            yield finding
            return
    names = ", ".join(named.name for named in subject.names(some.place(own) for own in enforced))
    if traps:
        subject.unshown.append(f"whether each session can end well, of {names}: {UNSHOWN}")
    elif open_:
        subject.unshown.append(f"whether each session can end well, of {names}: {FEW_VALUES}")


def _uses_up_values(subject: Subject, some: SearchResult, enforced: Collection[int]) -> bool:
    """Tell whether sessions that cannot end well may only lack values that nobody has seen."""
    good = some.found.reaching(s for s, of in enumerate(some.found.unmet) if not of & frozenset(enforced))
    closed = (s for s, state in enumerate(some.found.states) if s not in good and not state[0].shut)
    return any(not has_values(subject, some, state) for state in closed)


def has_values(subject: Subject, some: SearchResult, state: int) -> bool:
    """
    Tell whether so many new values of keys are left in a state as all obligations together may take.

    Where calls have used up those that are tried, a customer that nobody has seen may still meet them.
    """
    return some.found.world.has_values(some.found.states[state], values_owed(subject, some))


def values_owed(subject: Subject, some: SearchResult) -> int:
    """Say how many new values of a key all obligations together may take."""
    contracts = [subject.contracts[place] for place in some.contracts]
    guards = [guard for contract in contracts for guard in contract.at_end]
    return sum(max(1, int(guard.n)) for guard in guards) + sum(map(calls_counted, contracts)) * bool(guards)


def _obligation(subject: Subject, some: SearchResult, own: int, state: int) -> Finding:
    rows = [*some.trace(state), TraceRow(kind="end")]
    against = _against(subject, some, state)
    trace = subject.shown(rows, [some.place(own)])
    return Finding(
        kind="obligation-cannot-be-met",
        message=f"no session meets it: {subject.contracts[some.place(own)].spec}",
        contracts=(subject.named[some.place(own)], *subject.names(against - {some.place(own)})),
        witness=trace,
        advice="let a call through that meets it, or take the obligation out",
        note=UNSHOWN if trace is None else _amounts_note(subject, some),
    )


def _trap(subject: Subject, some: SearchResult, state: int, unmet: Iterable[int]) -> Finding | None:
    rows = [*some.trace(state), TraceRow(kind="end")]
    places = {some.place(own) for own in unmet}
    trace = subject.shown(rows, places)
    if trace is None:
        return None
    against = _against(subject, some, state)
    return Finding(
        kind="session-cannot-end-well",
        message="after this, no session ends with every obligation met",
        contracts=(*subject.names(places), *subject.names(against - places)),
        witness=trace,
        advice="let the missing call through, refuse the last of these earlier, or refund what failed",
        note=_amounts_note(subject, some),
    )


def _against(subject: Subject, some: SearchResult, state: int) -> set[int]:
    """Find the contracts that refuse calls in a state."""
    world = some.found.world
    against: set[int] = set()
    for step in world.steps(some.found.states[state]):
        tries, _ = world.answer(some.found.states[state], step)
        against |= {place for tried in tries for place in tried.blocking}
    return {some.place(own) for own in against}


def _is_enforced(subject: Subject, place: int) -> bool:
    return subject.contracts[place].mode == "enforce"


def may_need_more_values(contract: Declaration) -> bool:
    """Tell whether a contract counts over all values of keys, so that more of them could matter."""
    return any(
        guard.kind == "distinct"
        or (
            guard.kind in ("cap", "need", "spend")
            and guard.cell is not None
            and guard.cell.key is None
            and guard.n > 1
        )
        for guard in guards_of(contract)
    )


def _amounts_note(subject: Subject, some: SearchResult) -> str | None:
    amounts = sorted({guard.n for p in some.contracts for guard in _spends(subject.contracts[p])})
    if not amounts:
        return None
    return f"searched with amounts at and just over {', '.join(map(show, amounts))}"


def _spends(contract: Declaration) -> Iterator[Any]:
    return (guard for guard in guards_of(contract) if guard.kind == "spend")
