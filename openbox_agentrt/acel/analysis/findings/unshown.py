"""
Name what a search found possible where a condition or a time is taken either way, and no session shows.

A part of a condition that is not followed may say anything in a search, and what is remembered may get too
old at any time. So that a tool is let through then, or that a contract decides, is known only once a session
of all contracts goes along with a trace of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..conditions.followed import open_parts
from ..filling.filled_traces import Distance
from ..named import name_of
from ..questions.searched import SearchResult, Subject, is_timed
from ..questions.session_filler import SessionFiller
from ..questions.witness import played
from ..search.state import Transition
from ..search.trace_row import TraceRow

__all__ = ("is_shown", "unshown_contracts", "unshown_tools")

_MOST_TRIED = 8


def unshown_tools(subject: Subject, some: SearchResult) -> Iterator[str]:
    """Find the tools that a search let through, and no session does."""
    if not _is_open(subject, some):
        return
    filler = SessionFiller(subject)
    for name in sorted((some.found.allowed & some.found.denied.keys()) - subject.examples.let):
        ways = some.found.let[name]
        if not _asks_either_way(subject, some) and any(some.is_at_once(state) for state, _ in ways):
            continue
        if not is_shown(subject, filler, [some.trace(*way) for way in ways], "ok"):
            yield name


def unshown_contracts(subject: Subject, some: SearchResult) -> Iterator[int]:
    """Find the contracts that refuse in a search, and in no session."""
    if not _is_open(subject, some):
        return
    filler = SessionFiller(subject)
    for own, place in enumerate(some.contracts):
        watches = subject.contracts[place].mode != "enforce"
        if name_of(subject.contracts[place]) in subject.examples.decided or (watches and not is_timed(some)):
            continue
        outcome = None if watches else "refused"
        ways = _broken(subject, some, own)
        ends = [state for state, unmet in enumerate(some.found.unmet) if own in unmet][:_MOST_TRIED]
        alone = list(_alone(subject, some, own))
        # What never objects alone is idle, if all that is taken either way are times.
        if not _asks_either_way(subject, some) and (not alone or any(map(some.is_at_once, alone))):
            continue
        objecting = [some.trace(*way) for way in ways]
        at_ends = [[*some.trace(end), TraceRow(kind="end")] for end in ends]
        if (ways or ends) and not (
            is_shown(subject, filler, objecting, outcome, place)
            or is_shown(subject, filler, at_ends, "ok", place)
        ):
            yield place


def _broken(subject: Subject, some: SearchResult, own: int) -> list[tuple[int, Transition]]:
    """Give the first calls that a contract refuses, or would if it were enforced."""
    if subject.contracts[some.place(own)].mode != "enforce":
        return [some.found.fired[own]] if own in some.found.fired else []
    refused = sorted(some.found.refused.items(), key=lambda item: len(item[0]))
    return [way for blocking, way in refused if own in blocking][:_MOST_TRIED]


def _alone(subject: Subject, some: SearchResult, own: int) -> Iterator[int]:
    """Give states in which a contract objects to a call or the end, and no other would do in its place."""
    place = some.place(own)
    if subject.contracts[place].mode != "enforce":
        yield from (some.found.fired[at][0] for at in {own} & some.found.fired.keys())
    objecting = [(blocking, state) for blocking, (state, _) in some.found.refused.items()]
    for blocking, state in (*objecting, *((unmet, state) for state, unmet in enumerate(some.found.unmet))):
        others = (some.place(other) for other in blocking if other != own)
        if own in blocking and not any(subject.replaces(other, place) for other in others):
            yield state


def is_shown(
    subject: Subject,
    filler: SessionFiller,
    traces: Sequence[Sequence[TraceRow]],
    ends: str | None,
    alone: int | None = None,
) -> bool:
    """
    Tell whether a session of all contracts goes along with one of some traces, as it is or filled.

    Where one stands in its way that is not analysed, nobody can tell; everything said holds whatever it says.

    Args:
        subject: The contracts.
        filler: Tries traces with what conditions read.
        traces: The traces.
        ends: How the last row of each ends; None if that does not matter.
        alone: A contract that objects to the last row, and no other does that would do in its place.
    """
    sessions = (
        _goes_along(subject, played(rows, subject.every, subject.state, under), _wanted(rows, ends), alone)
        for rows in traces
        for under in subject.surroundings
    )
    if any(sessions):
        return True
    far = partial(_distance, subject, ends, alone)
    return any(filler.shows((ends, alone), rows, far) for rows in traces)


def _distance(
    subject: Subject, ends: str | None, alone: int | None, tried: Sequence[TraceRow], done: Sequence[TraceRow]
) -> Distance:
    if len(done) < len(tried) or (alone is None and done[-1].outcome != ends):
        return 1 + len(tried) - len(done), len(done[-1].by)
    return 0, int(not _goes_along(subject, done, _wanted(tried, ends), alone))


def _wanted(rows: Sequence[TraceRow], ends: str | None) -> list[str | None]:
    return [*(row.outcome for row in rows[:-1]), ends]


def _goes_along(
    subject: Subject, done: Sequence[TraceRow], wanted: Sequence[str | None], alone: int | None
) -> bool:
    known = {name_of(contract) for contract in subject.contracts}
    for row, outcome in zip(done, wanted, strict=True):
        if outcome is not None and row.outcome != outcome:
            return not known.issuperset(row.by)
    by = [p for p, contract in enumerate(subject.contracts) if name_of(contract) in done[-1].by]
    if alone is None or subject.contracts[alone].mode != "enforce":
        return alone is None or alone in by
    others = (other for other in by if other != alone)
    return alone in by and not any(subject.replaces(o, alone) for o in others)


def _asks_either_way(subject: Subject, some: SearchResult) -> bool:
    return any(open_parts(subject.contracts[place]) for place in some.contracts)


def _is_open(subject: Subject, some: SearchResult) -> bool:
    return is_timed(some) or _asks_either_way(subject, some)
