"""
A session whose memory is kept in a shared store: it is held before a call is judged, and what a call has
changed is written before its tool runs.

What is written while Core is asked, or a person, costs nothing; where nobody is asked, it is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ....fleet.errors import FleetError, FleetUnavailableError, SessionMemoryError
from ...contracts.base import SessionRule
from ...memory.guard import Breach
from ...wording import shown
from ..plan.planned_call import PlannedCall

if TYPE_CHECKING:
    from concurrent.futures import Future


BUSY = SessionRule(
    "the session is held by this worker",
    "ask again, or wait until the other worker is done",
    code="session_busy",
    of_store=True,
)

LOST = SessionRule(
    "no other worker has gone on with the session",
    "make the call again: it is judged by what the session remembers now",
    code="session_lost",
    says="another worker went on with the session meanwhile",
    of_store=True,
)

RELEASED = SessionRule(
    "the session is let go of when its calls have started",
    "make the call again, and release the session after its calls",
    code="session_released",
    says="the session was released here before the call had started",
    of_store=True,
)

OVER = SessionRule(
    "no worker has ended the session",
    "start a new session",
    code="session_ended",
    says="the session was ended",
    of_store=True,
)

KEEPABLE = SessionRule(
    "the memory of the session can be kept",
    "put only what is JSON into the state of a session that is durable",
    code="session_unreadable",
    of_store=True,
)

ANSWERED = SessionRule(
    "the store that keeps the session answers",
    "try again later",
    code="session_store_unavailable",
    of_store=True,
)


class KeptSession(Protocol):
    """Hold a session in a store, for one worker at a time, see `fleet.sessions.SharedSession`."""

    @property
    def counts_alone(self) -> bool: ...

    @property
    def is_held(self) -> bool: ...

    @property
    def is_new(self) -> bool: ...

    @property
    def is_released(self) -> bool: ...

    def enter(self) -> None: ...

    def leave(self) -> None: ...

    def let_go(self) -> None: ...

    def hold(self, *, wait: float | None = None) -> None: ...

    async def ahold(self, *, wait: float | None = None) -> None: ...

    def write(self) -> Future[bool]: ...

    def wait(self, written: Future[bool]) -> bool: ...

    async def await_(self, written: Future[bool]) -> bool: ...

    def touch(self, *, soon: bool = True) -> None: ...

    def end(self) -> None: ...


class Pieces(Protocol):
    """Note what has changed in the memory of a session, see `session_pieces`."""

    def note(self, call: PlannedCall, /) -> None: ...

    def note_all(self) -> None: ...

    def check(self) -> None: ...


CountOutage: TypeAlias = Callable[[str], None]


class SessionGate:
    """
    Take the calls of one session through the store that keeps its memory.

    Args:
        session: The session in the store.
        pieces: Its memory here.
        count_outage: Told what a call met while the store did not answer.

    Attributes:
        session: See above.
    """

    __slots__ = ("_count_outage", "_counts_alone", "_over", "_pieces", "session")

    def __init__(self, session: KeptSession, pieces: Pieces, count_outage: CountOutage) -> None:
        self.session = session
        self._pieces = pieces
        self._count_outage = count_outage
        self._over = False
        self._counts_alone = False

    def admit(self, entries: Iterable[str]) -> None:
        """
        Let entries of the state be written by hand, which are lost where somebody else goes on with it.

        Raises:
            SessionMemoryError: The session is not held.
        """
        is_ours = self.session.is_held and not self.session.is_released
        if not (is_ours or self._counts_alone):
            named = ", ".join(map(shown, entries))
            raise SessionMemoryError(
                f"state {named} cannot be written: the session is not held here, and what its store keeps"
                " would replace it; call hold() first, or give it as the initial state of a new session"
            )

    def hold(self) -> list[Breach]:
        """Take the session if it is not held, and say what stands against that. Blocks the thread."""
        if self._over:
            return [Breach(contract=OVER)]
        if self.session.is_held:
            return []
        try:
            self.session.hold()
        except FleetError as error:
            return self._failed(error)
        self._counts_alone = False
        return []

    async def ahold(self) -> list[Breach]:
        """Do as `hold`, without blocking the event loop."""
        if self._over:
            return [Breach(contract=OVER)]
        if self.session.is_held:
            return []
        try:
            await self.session.ahold()
        except FleetError as error:
            return self._failed(error)
        self._counts_alone = False
        return []

    def take(self) -> None:
        """
        Take the session if it is not held, for somebody who makes no call. Blocks the thread.

        Raises:
            SessionBusyError: Another process has it.
            FleetUnavailableError: The store does not answer, and nobody counts alone then.
            SessionMemoryError: What is kept cannot be read.
        """
        if self._over or self.session.is_held:
            return
        try:
            self.session.hold()
        except FleetUnavailableError as error:
            if self._failed(error):
                raise
        else:
            self._counts_alone = False

    def judged(self, call: PlannedCall) -> None:
        """Have written what a call has changed. `written` says whether it may run."""
        self._pieces.note(call)
        call.special = True
        call.alone = call.admitted and not self.session.is_held
        if call.admitted and self.session.is_held:
            has_moved = call.plan.counts or call.movers()
            call.written = self.session.write() if has_moved else _nothing()
        else:
            self.session.touch()

    def written(self, call: PlannedCall) -> list[Breach]:
        """Wait until what a call has changed is written, and say what stands against its running."""
        for again in (False, True):
            written = self.session.write() if again else call.written
            call.written = None
            try:
                if written is not None and not self.session.wait(written):
                    return [self._gone()]
            except FleetError as error:
                return self._not_written(call, error)
            if self.session.is_held:
                return []
            # It was written long ago, before a person was asked perhaps: the store says whose it is.
        return [self._gone()]

    async def awritten(self, call: PlannedCall) -> list[Breach]:
        """Do as `written`, without blocking the event loop."""
        for again in (False, True):
            written = self.session.write() if again else call.written
            call.written = None
            try:
                if written is not None and not await self.session.await_(written):
                    return [self._gone()]
            except FleetError as error:
                return self._not_written(call, error)
            if self.session.is_held:
                return []
        return [self._gone()]

    def moved(self, call: PlannedCall) -> None:
        """Have written soon what the end of a call has changed. A finalizer may call this."""
        self._pieces.note(call)
        self.session.touch()

    def changed(self) -> None:
        """Have written soon whatever has changed."""
        self._pieces.note_all()
        self.session.touch()

    def end(self) -> None:
        """End the session for all workers, and let nothing more through here."""
        self._over = True
        self.session.end()

    def check(self) -> None:
        """
        Accept the contracts in force.

        Raises:
            SnapshotError: One has code of its own, whose memory cannot be kept.
        """
        self._pieces.check()

    def _not_written(self, call: PlannedCall, error: FleetError) -> list[Breach]:
        breaches = self._failed(error)
        call.alone = not breaches
        return breaches

    def _gone(self) -> Breach:
        return Breach(contract=RELEASED if self.session.is_released else LOST, retry_after=0.0)

    def _failed(self, error: FleetError) -> list[Breach]:
        if isinstance(error, FleetUnavailableError):
            self._count_outage("local" if self.session.counts_alone else "refuse")
            if self.session.counts_alone:
                self._counts_alone = True
                return []
            return [Breach(contract=ANSWERED, fault=str(error), retry_after=error.retry_after)]
        rule = KEEPABLE if isinstance(error, SessionMemoryError) else BUSY
        return [Breach(contract=rule, fault=str(error), retry_after=getattr(error, "retry_after", None))]


def is_unanswered(breaches: list[Breach] | None) -> bool:
    """Tell whether it stands against a call that a store gave no answer."""
    return any(breach.contract is ANSWERED for breach in breaches or ())


@cache
def _nothing() -> Future[bool]:
    """Stand for what need not be written before the tool runs."""
    from concurrent.futures import Future

    done: Future[bool] = Future()
    done.set_result(True)
    return done
