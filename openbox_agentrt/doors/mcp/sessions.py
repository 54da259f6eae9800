"""
One session per client: opened at its first call, ended when it goes, goes quiet, or the server stops.

The table is bounded. When it is full a new client is refused and no other client's session is given up for
it: whoever can open many sessions could otherwise flush the counters of everybody, and their own.
"""

import asyncio
import logging
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from ..._picklable import PicklableError
from ...acel import Session, Violation
from .keys import ClientKey

log = logging.getLogger(__name__)

DEFAULT_IDLE_TIMEOUT = 30 * 60.0
DEFAULT_MAX_SESSIONS = 10_000

EndReason = Literal["client left", "quiet", "closed"]
_Slot = tuple[str, Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """
    Tell of the end of one client's session.

    Attributes:
        session: The session; it admits nothing any more.
        key: Key of the client that it belonged to.
        reason: Why it ended.
        unmet: Contracts that were still open, e.g. a `required_before_session_end` that was never met.
    """

    session: Session
    key: ClientKey
    reason: EndReason
    unmet: tuple[Violation, ...]


class TooManySessionsError(PicklableError, RuntimeError):
    """
    A client was refused because the table is full. Its call did not run.

    Attributes:
        limit: Number of sessions that may be open at once.
    """

    def __init__(self, *, limit: int) -> None:
        self.limit = limit
        super().__init__(f"{limit} sessions are open already")


@dataclass(slots=True, eq=False)
class _Entry:
    session: Session
    key: ClientKey
    last_used: float
    # Whether the client's leaving can be noticed.
    ends_by_itself: bool
    in_use: int = 0
    # Kept for as long as the entry: a weak reference that is dropped tells nobody.
    watch: object = None


@dataclass(slots=True, eq=False)
class _Timer:
    loop: asyncio.AbstractEventLoop
    handle: asyncio.TimerHandle


class SessionTable:
    """
    Keep the sessions of all clients of a server, by key.

    Args:
        factory: Builds the session of a new client. Runs under the table's lock, once per client.
        idle_timeout: Seconds without a call after which a session ends. `None` is half an hour for keys that
            have no end of their own, such as a principal, and never for those that end with a connection.
        max_sessions: Number of sessions that may be open at once.
        clock: Monotone clock, in seconds.
        on_end: Told of every session that ended, after it ended.
    """

    def __init__(
        self,
        factory: Callable[[], Session],
        *,
        idle_timeout: float | None = None,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[SessionEnd], None] | None = None,
    ) -> None:
        if idle_timeout is not None and not idle_timeout > 0:
            raise ValueError(f"idle_timeout must be above 0, got {idle_timeout!r}")
        if max_sessions < 1:
            raise ValueError(f"max_sessions must be at least 1, got {max_sessions!r}")
        self._factory = factory
        self._idle_timeout = idle_timeout
        self._max_sessions = max_sessions
        self._clock = clock
        self._on_end = on_end
        self._lock = threading.RLock()
        self._entries: dict[_Slot, _Entry] = {}
        # Written by weak references, so possibly in the middle of anything: appending is all they do.
        self._gone: deque[_Slot] = deque()
        # No session goes quiet before this, so that a sweep need not look at all of them.
        self._quiet_from = math.inf
        self._timer: _Timer | None = None

    def sessions(self) -> list[Session]:
        """List the sessions that are open."""
        with self._lock:
            return [entry.session for entry in self._entries.values()]

    @contextmanager
    def use(self, key: ClientKey) -> Iterator[Session]:
        """
        Use the session of a client for one call, opening it if it is the client's first.

        Raises:
            TooManySessionsError: If the client is new and the table is full.
        """
        self.sweep()
        with self._lock:
            entry = self._entries.get((key.kind, key.value)) or self._open(key)
            entry.in_use += 1
        try:
            yield entry.session
        finally:
            with self._lock:
                entry.in_use -= 1
                entry.last_used = self._clock()
            self._arm()

    def end(self, key: ClientKey, *, reason: EndReason = "client left") -> None:
        """End the session of a client, if it has one."""
        with self._lock:
            entry = self._entries.pop((key.kind, key.value), None)
        if entry is not None:
            self._finish(entry, reason)

    def sweep(self) -> None:
        """End the sessions of clients that have gone or gone quiet."""
        ended: list[tuple[_Entry, EndReason]] = []
        with self._lock:
            while self._gone:
                entry = self._entries.pop(self._gone.popleft(), None)
                if entry is not None:
                    ended.append((entry, "client left"))
            ended += [(entry, "quiet") for entry in self._pop_quiet()]
        for entry, reason in ended:
            self._finish(entry, reason)

    def close(self, *, only: Callable[[ClientKey], bool] = lambda key: True) -> None:
        """End every session, or those whose key is asked for."""
        with self._lock:
            chosen = [slot for slot, entry in self._entries.items() if only(entry.key)]
            entries = [self._entries.pop(slot) for slot in chosen]
        for entry in entries:
            self._finish(entry, "closed")

    def _open(self, key: ClientKey) -> _Entry:
        if len(self._entries) >= self._max_sessions:
            raise TooManySessionsError(limit=self._max_sessions)
        entry = _Entry(
            session=self._factory(),
            key=key.bare(),
            last_used=self._clock(),
            ends_by_itself=key.anchor is not None,
        )
        slot = (key.kind, key.value)
        if key.anchor is not None:
            entry.watch = self._watch(key.anchor, slot)
        self._entries[slot] = entry
        self._quiet_from = min(self._quiet_from, self._quiet_at(entry))
        return entry

    def _watch(self, anchor: object, slot: _Slot) -> object:
        loop = _running_loop()

        def gone(_: object) -> None:
            self._gone.append(slot)
            if loop is not None and not loop.is_closed():
                loop.call_soon_threadsafe(self.sweep)

        try:
            return weakref.ref(anchor, gone)
        except TypeError:
            # Held instead, so that nothing else can come to the identity that is its key.
            return anchor

    def _pop_quiet(self) -> list[_Entry]:
        now = self._clock()
        if now < self._quiet_from:
            return []
        quiet = [
            slot for slot, entry in self._entries.items() if not entry.in_use and self._quiet_at(entry) <= now
        ]
        popped = [self._entries.pop(slot) for slot in quiet]
        for entry in self._entries.values():
            if entry.in_use:
                # Its quiet begins when its call ends, so not before now.
                entry.last_used = now
        self._quiet_from = min(map(self._quiet_at, self._entries.values()), default=math.inf)
        return popped

    def _quiet_at(self, entry: _Entry) -> float:
        timeout = self._idle_timeout
        if timeout is None:
            timeout = math.inf if entry.ends_by_itself else DEFAULT_IDLE_TIMEOUT
        return entry.last_used + timeout

    def _arm(self) -> None:
        # A sweep comes with the next call of any client; the timer is for when there is none.
        loop = _running_loop()
        if loop is None or self._quiet_from == math.inf:
            return
        if self._timer is not None and self._timer.loop is loop:
            return
        delay = max(0.0, self._quiet_from - self._clock())
        self._timer = _Timer(loop, loop.call_later(delay, self._on_timer))

    def _on_timer(self) -> None:
        self._timer = None
        self.sweep()
        self._arm()

    def _finish(self, entry: _Entry, reason: EndReason) -> None:
        try:
            end = SessionEnd(
                session=entry.session, key=entry.key, reason=reason, unmet=tuple(entry.session.end_session())
            )
            if end.unmet:
                log.warning("a session ended (%s) with %d contracts unmet", reason, len(end.unmet))
            if self._on_end is not None:
                self._on_end(end)
        except Exception:
            # The client is gone and this runs inside another one's call, which must not fail for it.
            log.exception("a session could not be ended properly")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
