"""The memory of a session in a shared store, as those see it who use the session in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future

from .client.sessions import HeldSession, ToHold, ToKeep
from .errors import SessionBusyError
from .worker import FleetWorker

HOLD_SECONDS = 5.0
"""So long whoever wants a session waits for another worker that has it."""


class SharedSession:
    """
    Hold a session, so that no other worker does, and have what changes in its memory written.

    One that is dropped lets go of the session.

    Made by `Fleet.session`. Every method can be called from any thread; none waits but those that say so.

    Args:
        fleet: The store.
        record: What is known of the session.
    """

    def __init__(self, fleet: FleetWorker, record: HeldSession) -> None:
        self._fleet = fleet
        self._known = record

    @property
    def _record(self) -> HeldSession:
        return self._known.here()

    @property
    def name(self) -> str:
        """Give the name of the session in the store."""
        return self._record.name

    @property
    def counts_alone(self) -> bool:
        """Tell whether an outage of the store leaves it to this process to count."""
        return self._fleet.on_outage == "local"

    @property
    def is_held(self) -> bool:
        """Tell whether this worker has it, as far as is known without asking."""
        return self._fleet.has(self._record.worker)

    @property
    def is_new(self) -> bool:
        """Tell whether nobody has written anything in it yet, as far as this worker knows."""
        return self._record.version <= 0

    @property
    def is_released(self) -> bool:
        """Tell whether it was taken here, and nobody here uses it any more."""
        return self._record.taken > 0 and self._record.users <= 0

    def enter(self) -> None:
        """Take note that one more uses it."""
        self._record.users += 1

    def leave(self) -> None:
        """Take note that one less does. With the last, it is written and let go of, soon."""
        self._record.users = max(0, self._record.users - 1)
        if not self._record.users:
            self._record.memory.leave()
            self.touch(soon=False)

    def let_go(self) -> None:
        """Let others have it, whoever uses it here: they take it again."""
        if self._record.users or self.is_held:
            self._record.users = 0
            self._record.memory.leave()
            self.touch(soon=False)

    def hold(self, *, wait: float | None = None) -> None:
        """
        Take the session, and remember what the store has of it. The calling thread waits.

        Args:
            wait: Seconds for which another worker may have it; five if left out.

        Raises:
            SessionBusyError: Another worker has it for longer.
            FleetUnavailableError: The store gave no answer in time.
            SessionMemoryError: What the store has cannot be read here.
        """
        for pause in _pauses(wait):
            try:
                self._fleet.ask(self._to_hold())
                return
            except SessionBusyError as error:
                # The question knows the error, and its traceback the question: a cycle would keep `self`.
                error.__traceback__ = None
                if pause is None:
                    raise
            time.sleep(pause)

    async def ahold(self, *, wait: float | None = None) -> None:
        """Do as `hold`, and let the event loop go on."""
        for pause in _pauses(wait):
            try:
                await self._fleet.aask(self._to_hold())
                return
            except SessionBusyError as error:
                # The question knows the error, and its traceback the question: a cycle would keep `self`.
                error.__traceback__ = None
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    def write(self) -> Future[bool]:
        """
        Write what has changed, at once.

        Returns:
            Whether the session still is this worker's. It fails as `hold` does, and with `SessionMemoryError`
            where the memory holds something that cannot be kept.
        """
        request = ToKeep(self._fleet.deadline(), record=self._record)
        self._fleet.put(request)
        return request.future

    def wait(self, written: Future[bool]) -> bool:
        """Wait for what `write` gave. Raises what it fails with. The calling thread waits."""
        return self._fleet.wait_for(written)

    async def await_(self, written: Future[bool]) -> bool:
        """Do as `wait`, and let the event loop go on."""
        return await self._fleet.await_for(written)

    def touch(self, *, soon: bool = True) -> None:
        """
        Have written what has changed: with the next question, or by itself within 50 ms.

        It takes no lock, so a finalizer may call it, and it is tried until the store has answered.
        """
        self._fleet.write_soon(self._record, soon=soon)

    def __del__(self) -> None:
        # Whoever dropped it uses it no more. A copy that a fork made is not held, so it lets go of nothing.
        self._record.users = 0
        if self.is_held:
            # A collector of cycles has forgotten by now which record has the session.
            self._record.holders.setdefault(self.name, self._record)
            self.touch(soon=False)

    def end(self) -> None:
        """Forget it for all workers, soon: whoever holds it next begins anew. It has to be held."""
        self._record.ending = True
        self.touch(soon=False)

    def _to_hold(self) -> ToHold:
        self._record.users = max(self._record.users, 1)
        return ToHold(self._fleet.deadline(), record=self._record, abandoned=self._fleet.write_soon)


def _pauses(wait: float | None) -> Iterator[float | None]:
    """Give how long to wait before asking again; None for the last time."""
    until, pause = time.monotonic() + (HOLD_SECONDS if wait is None else wait), 0.02
    while (left := until - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(2 * pause, 0.25)
    yield None
