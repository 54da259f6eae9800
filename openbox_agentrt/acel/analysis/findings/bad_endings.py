"""Find obligations that no session can meet, and sessions that can no more end well."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from ..questions.searched import (
    FEW_VALUES,
    WAITS,
    SearchResult,
    Subject,
    has_values,
    is_timed,
    tried_note,
    values_owed,
)
from ..questions.witness import UNSHOWN
from ..search.trace_row import TraceRow
from .finding import Finding

__all__ = (
    "MoreValues",
    "end_findings",
    "is_unsure",
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
    is_open = False
    if not all(has_values(subject, some, state) for state in some.stuck(enforced)):
        more = again(some, values_owed(subject, some))
        is_open, some = more is None, some if more is None else more
    hopeless: set[int] = set()
    for own in sorted(frozenset().union(*some.found.unmet) & enforced):
        state = _never_met(subject, some, own)
        finding = None if state is None else _obligation(subject, some, own, state)
        if finding is not None:
            hopeless.add(own)
            yield finding
    asked = enforced - hopeless
    new_values = (state for state in some.stuck(asked) if has_values(subject, some, state))
    stuck = list(itertools.islice(new_values, _MOST_TRAPS))
    traps = (_trap(subject, some, state, some.found.unmet[state] & asked) for state in stuck)
    trap = next((trap for trap in traps if trap is not None), None)
    if trap is not None:
        yield trap
    elif stuck or is_open or is_unsure(subject, some, asked):
        names = ", ".join(named.name for named in subject.names(some.place(own) for own in enforced))
        why = FEW_VALUES if is_open else WAITS if is_timed(some) else UNSHOWN
        subject.unshown.append(f"whether each session can end well, of {names}: {why}")


def is_unsure(subject: Subject, some: SearchResult, own: Collection[int]) -> bool:
    """Tell whether it depends on the times between calls if sessions can still meet some contracts."""
    if not is_timed(some):
        return False
    stuck = set(some.stuck(own))
    unsure = (state for state in some.stuck(own, surely=True) if state not in stuck)
    return any(has_values(subject, some, state) for state in unsure)


def _never_met(subject: Subject, some: SearchResult, own: int) -> int | None:
    """Find the first state in which an obligation is unmet, if no session ever gets out of such states."""
    unmet = [state for state, of in enumerate(some.found.unmet) if own in of]
    met = some.met({own})
    if met and subject.contracts[some.place(own)].asked_at_end:
        # Its condition asks for it on some ways only, and those are traps.
        return None
    if some.found.reaching(met).keys() & set(unmet):
        return None
    return next((state for state in unmet if has_values(subject, some, state)), None)


def _obligation(subject: Subject, some: SearchResult, own: int, state: int) -> Finding | None:
    rows = [*some.trace(state), TraceRow(kind="end")]
    against = _against(some, state)
    trace = subject.shown(rows, [some.place(own)])
    if trace is None and is_timed(some):
        # No waits may lead there, and then nothing is unmet.
        return None
    return Finding(
        kind="obligation-cannot-be-met",
        message=f"no session meets it: {subject.contracts[some.place(own)].spec}",
        contracts=(subject.named[some.place(own)], *subject.names(against - {some.place(own)})),
        witness=trace,
        advice="let a call through that meets it, or take the obligation out",
        note=UNSHOWN if trace is None else tried_note(subject, some.contracts),
    )


def _trap(subject: Subject, some: SearchResult, state: int, unmet: Iterable[int]) -> Finding | None:
    rows = [*some.trace(state), TraceRow(kind="end")]
    places = {some.place(own) for own in unmet}
    trace = subject.shown(rows, places)
    if trace is None:
        return None
    against = _against(some, state)
    return Finding(
        kind="session-cannot-end-well",
        message="after this, no session ends with every obligation met",
        contracts=(*subject.names(places), *subject.names(against - places)),
        witness=trace,
        advice="let the missing call through, refuse the last of these earlier, or refund what failed",
        note=tried_note(subject, some.contracts),
    )


def _against(some: SearchResult, state: int) -> set[int]:
    """Find the contracts that refuse calls in a state."""
    world = some.found.world
    against: set[int] = set()
    for step in world.steps(some.found.states[state]):
        tries, _ = world.answer(some.found.states[state], step)
        against |= {place for tried in tries for place in tried.blocking}
    return {some.place(own) for own in against}


def _is_enforced(subject: Subject, place: int) -> bool:
    return subject.contracts[place].mode == "enforce"
