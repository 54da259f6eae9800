"""
Name what a search found possible where a condition is taken either way, and no session shows.

A part of a condition that is not followed may say anything in a search. So that a tool is let through then,
or that a contract decides, is known only once a session of all contracts goes along with a trace of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..conditions.followed import open_parts
from ..search.trace_row import TraceRow
from .finding import name_of
from .searched import SearchResult, Subject
from .witness import played

__all__ = ("is_shown", "unshown_contracts", "unshown_tools")

_MOST_TRIED = 8


def unshown_tools(subject: Subject, some: SearchResult) -> Iterator[str]:
    """Find the tools that a search let through, and no session does."""
    if not _is_open(subject, some):
        return
    for name in sorted((some.found.allowed & some.found.denied.keys()) - subject.examples.let):
        ways = some.found.let[name]
        if not any(is_shown(subject, some.trace(*way), "ok") for way in ways):
            yield name


def unshown_contracts(subject: Subject, some: SearchResult) -> Iterator[int]:
    """Find the contracts that refuse in a search, and in no session."""
    if not _is_open(subject, some):
        return
    for own, place in enumerate(some.contracts):
        if subject.contracts[place].mode != "enforce":
            continue
        if name_of(subject.contracts[place]) in subject.examples.decided:
            continue
        refused = sorted(some.found.refused.items(), key=lambda item: len(item[0]))
        refusing = [way for blocking, way in refused if own in blocking]
        ends = [state for state, unmet in enumerate(some.found.unmet) if own in unmet]
        ways = [some.trace(*way) for way in refusing[:_MOST_TRIED]]
        ends_shown = [[*some.trace(state), TraceRow(kind="end")] for state in ends[:_MOST_TRIED]]
        if (ways or ends_shown) and not (
            any(is_shown(subject, rows, "refused", place) for rows in ways)
            or any(is_shown(subject, rows, "ok", place) for rows in ends_shown)
        ):
            yield place


def is_shown(subject: Subject, rows: Sequence[TraceRow], ends: str, alone: int | None = None) -> bool:
    """
    Tell whether a session of all contracts goes along with a trace.

    Where one stands in its way that is not analysed, nobody can tell; everything said holds whatever it says.

    Args:
        subject: The contracts.
        rows: The trace.
        ends: How its last row ends.
        alone: A contract that objects to the last row, and no other does that would do in its place.
    """
    wanted = [*(row.outcome for row in rows[:-1]), ends]
    sessions = (played(rows, subject.every, subject.state, under) for under in subject.surroundings)
    return any(_goes_along(subject, done, wanted, alone) for done in sessions)


def _goes_along(subject: Subject, done: Sequence[TraceRow], wanted: Sequence[str], alone: int | None) -> bool:
    known = {name_of(contract) for contract in subject.contracts}
    for row, outcome in zip(done, wanted, strict=True):
        if row.outcome != outcome:
            return not known.issuperset(row.by)
    by = [p for p, contract in enumerate(subject.contracts) if name_of(contract) in done[-1].by]
    others = (other for other in by if other != alone)
    return alone is None or (alone in by and not any(subject.replaces(o, alone) for o in others))


def _is_open(subject: Subject, some: SearchResult) -> bool:
    return any(open_parts(subject.contracts[place]) for place in some.contracts)
