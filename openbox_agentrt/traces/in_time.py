"""What several sessions did, in the order of time: recordings come one file after the other."""

from __future__ import annotations

from collections.abc import Iterable

from .events import Ended, TraceEvent

__all__ = ("in_time",)


def in_time(events: Iterable[TraceEvent]) -> list[TraceEvent]:
    """
    Put what happened into the order of time, each session in its own order.

    All of it is in memory then. What says no time happens with what came before it in its session; a session
    without any times comes before all others, in the order of the recordings.
    """
    latest: dict[str, float] = {}
    placed: list[tuple[float, int, TraceEvent]] = []
    for number, event in enumerate(events):
        session = event.call.session if isinstance(event, Ended) else event.session
        at = latest.get(session, float("-inf"))
        at = latest[session] = at if event.at is None else max(at, event.at)
        placed.append((at, number, event))
    placed.sort(key=lambda item: item[:2])
    return [event for _, _, event in placed]
