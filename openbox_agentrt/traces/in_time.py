"""Put what several sessions did into the order of time: recordings come one file after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from operator import itemgetter
from typing import NamedTuple

from .events import Began, Ended, TraceEvent
from .sorting import in_order

__all__ = ("in_time",)


class _Placed(NamedTuple):
    """An event, when it happened, and of an end the number of its call, which is an object of its own."""

    at: float
    number: int
    event: TraceEvent
    call: int


_NO_CALL = Began(where="", session="", tool="", args=None)


def in_time(recordings: Iterable[Iterable[TraceEvent]]) -> Iterator[TraceEvent]:
    """
    Put what happened into the order of time, what one recording says of a session in its own order.

    What says no time happens with what came before it in its session; a session without any times comes
    before all others, in the order of the recordings. In memory are the name and the time of each session,
    and the calls under way.
    """
    begun: dict[int, Began] = {}
    for placed in in_order(_placed(recordings), itemgetter(0, 1)):
        event = placed.event
        if isinstance(event, Began):
            begun[placed.call] = event
        elif isinstance(event, Ended):
            event = replace(event, call=begun.pop(placed.call))
        yield event


def _placed(recordings: Iterable[Iterable[TraceEvent]]) -> Iterator[_Placed]:
    numbers = count()
    for events in recordings:
        yield from _placed_of_one(events, numbers)


def _placed_of_one(events: Iterable[TraceEvent], numbers: Iterator[int]) -> Iterator[_Placed]:
    latest: dict[str, float] = {}
    open_calls: dict[Began, int] = {}
    for event, number in zip(events, numbers, strict=False):
        session = event.call.session if isinstance(event, Ended) else event.session
        at = latest.get(session, float("-inf"))
        at = latest[session] = at if event.at is None else max(at, event.at)
        call = number
        if isinstance(event, Began):
            open_calls[event] = number
        elif isinstance(event, Ended):
            call = open_calls.pop(event.call)
            event = replace(event, call=_NO_CALL)
        yield _Placed(at, number, event, call)
