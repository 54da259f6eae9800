"""Contracts that never decide: taken out, they change nothing that is ever refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..budget import Budget
from ..questions.searched import SearchResult, Subject, may_need_more_values, tried_note
from ..questions.witness import until_refused
from ..search.trace_row import TraceRow
from .finding import Finding

__all__ = ("idle_contracts",)

Search = Callable[[Sequence[int], Sequence[int], Budget], SearchResult]
"""Searches some contracts with the calls of more."""


@dataclass(frozen=True, slots=True)
class _Idle:
    """A contract that never decides, and the sets of contracts with which it would refuse."""

    place: int
    sets: tuple[frozenset[int], ...]


def idle_contracts(
    subject: Subject,
    searched: Sequence[SearchResult],
    calls: Mapping[int, Sequence[str]],
    shut: Collection[str],
    search: Search,
    budget: Budget,
    leave: Callable[[int], None],
) -> Iterator[Finding]:
    """
    Find contracts that never decide, and those that decide only what another decides as well.

    Those that more values of a key could still let decide are left undecided, by `leave`. Nothing is said of
    those that refuse calls of `shut` tools alone: once such a call is let through, they may decide.
    """
    gone: set[int] = set()
    among: dict[int, list[SearchResult]] = {}
    for some in searched:
        for place in some.contracts:
            among.setdefault(place, []).append(some)
    # Of two that say the same, the later one goes.
    for place in reversed(range(len(subject.contracts))):
        # Calls of others count for a contract of the fleet, so what it refuses is not known from one session.
        if subject.contracts[place].reach.is_fleet:
            continue
        if _refuses_only(among.get(place, []), place, shut):
            continue
        showing = _showing(among.get(place, []), calls.get(place, ()))
        found = [(about, _idle(subject, about, place, gone)) for about in showing]
        idle = [(about, of) for about, of in found if of is not None]
        shown = next(((about, of) for about, of in idle if not _is_open(subject, about, place)), None)
        if shown is not None:
            about, of = shown
            gone.add(place)
            yield _finding(subject, about[0], of, search, budget)
        elif idle and len(idle) == len(found):
            leave(place)


def _refuses_only(about: Iterable[SearchResult], place: int, tools: Collection[str]) -> bool:
    """Tell whether all calls that a contract refuses in some searches are of some tools."""
    refused = {
        name
        for some in about
        for name, denied in some.found.denied.items()
        if any(some.contracts.index(place) in blocking for blocking in denied)
    }
    return bool(refused) and refused.issubset(tools)


def _showing(about: Sequence[SearchResult], calls: Collection[str]) -> Iterator[list[SearchResult]]:
    """Give the searches that show by themselves if a contract decides, then all of them together."""
    yield from ([some] for some in about if some.whole and some.names.issuperset(calls))
    if about and all(some.whole for some in about):
        yield list(about)


def _idle(subject: Subject, about: Sequence[SearchResult], place: int, gone: set[int]) -> _Idle | None:
    sets: list[frozenset[int]] = []
    for some in about:
        own = some.contracts.index(place)
        found = some.found
        if subject.contracts[place].mode != "enforce":
            if own in found.fired or any(own in unmet for unmet in found.unmet):
                return None
            continue
        unblocking = own in found.fired and not any(own in blocking for blocking in found.refused)
        if unblocking:
            return None
        here = [blocking for blocking in found.refused if own in blocking]
        here += [unmet for unmet in set(found.unmet) if own in unmet]
        sets += [frozenset(map(some.place, blocking)) for blocking in here]
    if any(not _others(subject, blocking, place) - gone for blocking in sets):
        return None
    return _Idle(place, tuple(sets))


def _others(subject: Subject, blocking: frozenset[int], place: int) -> frozenset[int]:
    return frozenset(p for p in blocking if p != place and subject.replaces(p, place))


def _is_open(subject: Subject, about: Sequence[SearchResult], place: int) -> bool:
    """Tell whether more values of a key could still let it decide."""
    limited = any(some.found.world.limited for some in about)
    return limited and may_need_more_values(subject.contracts[place])


def _finding(subject: Subject, some: SearchResult, idle: _Idle, search: Search, budget: Budget) -> Finding:
    place = idle.place
    alone = search([place], some.contracts, budget.part(4))
    own = alone.contracts.index(place)
    fired = alone.found.fired_whole.get(own, alone.found.fired.get(own))
    by = frozenset() if fired is None else _implying(subject, some, idle, search, budget)
    witness = None if fired is None else _as_far_as_let(subject, alone.trace(*fired))
    if by:
        # Where it would decide if there were not the others.
        rest = search([p for p in some.contracts if p not in by], some.contracts, budget.part(4))
        own = rest.contracts.index(place)
        deciding = rest.found.fired_whole.get(own)
        witness = witness if deciding is None else _as_far_as_let(subject, rest.trace(*deciding))
        others = " and ".join(subject.named[p].name for p in sorted(by))
        return Finding(
            kind="contract-implied-by",
            message=f"it refuses nothing that {others} does not refuse as well",
            contracts=(subject.named[place], *subject.names(by)),
            witness=witness,
            advice="take one of them out, or loosen the one that was not meant to be stricter",
            note=tried_note(subject, {place, *by}),
        )
    return Finding(
        kind="contract-never-decides",
        message="no session gets to a call that it refuses",
        contracts=(subject.named[place],),
        witness=witness,
        advice="take it out, or look for what keeps its calls from happening",
        note=tried_note(subject, some.contracts),
    )


def _implying(
    subject: Subject, some: SearchResult, idle: _Idle, search: Search, budget: Budget
) -> frozenset[int]:
    """Find the contracts because of which one never decides, as few as are easily found."""
    if idle.sets:
        always = frozenset.intersection(*(_others(subject, of, idle.place) for of in idle.sets))
        every = frozenset().union(*(_others(subject, of, idle.place) for of in idle.sets))
        # Not every combination of patterns was tried, so of the two alone all are.
        near = (
            other
            for other in _nearest(subject, idle.place, always)
            if budget.spent or _implies(subject, idle.place, other, search, budget)
        )
        nearest = next(near, None)
        return every if nearest is None else frozenset({nearest})
    for other in some.contracts:
        if other == idle.place or budget.spent or subject.contracts[other].mode != "enforce":
            continue
        pair = sorted((idle.place, other))
        both = search(pair, some.contracts, budget.part(8))
        own = both.contracts.index(idle.place)
        if both.whole and own not in both.found.fired and not any(own in of for of in both.found.unmet):
            return frozenset({other})
    return frozenset()


def _implies(subject: Subject, place: int, other: int, search: Search, budget: Budget) -> bool:
    """Tell whether of two contracts alone, the one never refuses without the other."""
    pair = sorted((place, other))
    both = search(pair, pair, budget.part(8))
    return both.whole and _idle(subject, [both], place, set()) is not None


def _as_far_as_let(subject: Subject, rows: Sequence[TraceRow]) -> tuple[TraceRow, ...]:
    return tuple(until_refused(rows, subject.every, subject.state))


def _nearest(subject: Subject, place: int, others: frozenset[int]) -> list[int]:
    """List contracts, those first that are most like another."""
    own = subject.contracts[place]

    def distance(other: int) -> tuple[bool, bool, int]:
        contract = subject.contracts[other]
        return contract.template != own.template, contract.split != own.split, other

    return sorted(others, key=distance)
