"""Recordings of other programs, written down as traces of our own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from .events import Began, Ended, TraceEvent, Unrecorded

__all__ = ("rows_of",)


def rows_of(events: Iterable[TraceEvent]) -> Iterator[dict[str, Any]]:
    """Write what happened as rows of a trace of our own; calls that overlap are two rows each."""
    waiting: Began | None = None
    names: dict[Began, str] = {}
    numbers = count(1)
    for event in events:
        if isinstance(event, Ended) and event.call is waiting:
            waiting = None
            yield {**_row(event.call), **_end(event)}
            continue
        if waiting is not None:
            names[waiting] = str(next(numbers))
            yield {"event": "began", "call": names[waiting], **_row(waiting)}
            waiting = None
        if isinstance(event, Began):
            waiting = event
        elif isinstance(event, Ended):
            call = event.call
            yield {"event": "ended", "call": names.pop(call), "session_id": call.session, **_end(event)}


def _row(call: Began) -> dict[str, Any]:
    row: dict[str, Any] = {"tool": call.tool, "args": None if call.args is None else dict(call.args)}
    if call.at is not None:
        row["ts"] = call.at
    refused = {"refused": True} if call.refused else {}
    return {**row, "session_id": call.session, **refused}


def _end(end: Ended) -> dict[str, Any]:
    ended: dict[str, Any] = {"outcome": "aborted" if end.call.refused else end.outcome}
    if not isinstance(end.result, Unrecorded):
        ended["result"] = end.result
    return ended
