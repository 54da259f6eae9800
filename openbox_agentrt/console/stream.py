"""
Tell what happens, as server-sent events.

The number of an event is its number in Core's database, so a stream that was cut is resumed after the last
number that the browser saw, also by a console that was started anew. What has no number - a decision, a halt,
a line of evidence - is told as ``changed``; the page is then asked for again, so one of these that is missed
costs nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio

from ..local_core.reading import CoreReader, SeenEvent

HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 0.02
APART_SECONDS = 0.04
"""So far apart are what one stream is told: what comes between is told together."""

_MOST = 500


class Pulse:
    """
    Notice that something has changed, for all open pages at once.

    Args:
        reader: Core's database.
        others: Gives a number that changes when something beside the database has.
    """

    def __init__(self, reader: CoreReader, others: Callable[[], int]) -> None:
        self._reader = reader
        self._others = others
        self._beat = 0
        self._next = asyncio.Event()
        # The latest events, read once for all streams.
        self._rows: deque[SeenEvent] = deque(maxlen=_MOST)

    async def run(self) -> None:
        """Look for changes until it is cancelled."""
        seen = None
        while True:
            state = (self._reader.version(), self._others())
            if state != seen:
                seen = state
                self._read()
                self._beat += 1
                waiting, self._next = self._next, asyncio.Event()
                waiting.set()
            await asyncio.sleep(LOOK_SECONDS)

    async def messages(self, after: int | None, signed_in: Callable[[], bool]) -> AsyncIterator[str]:
        """
        Give the messages of one stream.

        Args:
            after: Number of the last event that the browser has seen; None for the latest.
            signed_in: Tells whether the browser is signed in still; the stream ends when it is not.
        """
        latest = self._reader.latest()
        # A number beyond the latest is of another database.
        number = latest if after is None or after > latest else after
        yield f"retry: 1000\nevent: hello\nid: {number}\ndata: {{}}\n\n"
        beat = self._beat
        while signed_in():
            following = self._next
            rows = self._since(number)
            told = [_message(row) for row in rows]
            if beat != self._beat:
                beat = self._beat
                told.append("event: changed\ndata: {}\n\n")
            if rows:
                number = rows[-1].seq
            if told:
                yield "".join(told)
                await asyncio.sleep(APART_SECONDS)
            if len(rows) == _MOST:
                continue
            with anyio.move_on_after(HEARTBEAT_SECONDS) as waited:
                await following.wait()
            if waited.cancelled_caught:
                # An event and no comment: a script can tell a stream that is quiet from one that is dead.
                yield "event: beat\ndata: {}\n\n"

    def _read(self) -> None:
        after = self._rows[-1].seq if self._rows else max(0, self._reader.latest() - _MOST)
        while rows := self._reader.events(after=after, limit=_MOST):
            self._rows.extend(rows)
            after = rows[-1].seq

    def _since(self, number: int) -> list[SeenEvent]:
        """Give the events after one: from memory, as far as it goes back, else from the database."""
        if self._rows and self._rows[0].seq <= number + 1:
            return [row for row in self._rows if row.seq > number]
        return self._reader.events(after=number, limit=_MOST)


def _message(row: SeenEvent) -> str:
    data = {"seq": row.seq, "run": row.run_id, "event": row.event_type, "verdict": row.verdict}
    return f"id: {row.seq}\ndata: {json.dumps(data)}\n\n"
