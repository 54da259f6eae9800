"""Find obligations that no session can meet, and sessions that can no more end well."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from ..search.trace_row import TraceRow
from .finding import Finding
from .searched import (
    FEW_VALUES,
    SearchResult,
    Subject,
    amounts_note,
    has_values,
    values_owed,
)
from .witness import UNSHOWN

__all__ = (
    "MoreValues",
    "end_findings",
)

_MOST_TRAPS = 20


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
        note=UNSHOWN if trace is None else amounts_note(subject, some),
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
        note=amounts_note(subject, some),
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
