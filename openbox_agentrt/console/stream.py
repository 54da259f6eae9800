"""
What happens, as server-sent events.

The number of an event is its number in Core's database, so a stream that was cut is resumed after the last
number that the browser saw, also by a console that was started anew. What has no number - a decision, a halt,
a line of evidence - is told as ``changed``; the page is then asked for again, so one of these that is missed
costs nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import anyio

from ..local_core.reading import CoreReader, SeenEvent

__all__ = ("HEARTBEAT_SECONDS", "Pulse")

HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 0.02
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

    async def run(self) -> None:
        """Look for changes until it is cancelled."""
        seen = None
        while True:
            state = (self._reader.version(), self._others())
            if state != seen:
                seen = state
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
            rows = self._reader.events(after=number, limit=_MOST)
            for row in rows:
                number = row.seq
                yield _message(row)
            if beat != self._beat:
                beat = self._beat
                yield "event: changed\ndata: {}\n\n"
            if len(rows) == _MOST:
                continue
            with anyio.move_on_after(HEARTBEAT_SECONDS) as waited:
                await following.wait()
            if waited.cancelled_caught:
                # An event and no comment: a script can tell a stream that is quiet from one that is dead.
                yield "event: beat\ndata: {}\n\n"


def _message(row: SeenEvent) -> str:
    data = {"seq": row.seq, "run": row.run_id, "event": row.event_type, "verdict": row.verdict}
    return f"id: {row.seq}\ndata: {json.dumps(data)}\n\n"
