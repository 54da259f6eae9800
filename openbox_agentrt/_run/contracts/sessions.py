"""
The sessions of a governance: what runs with one session id share, and when that ends.

Runs with one session id share their contracts, so that a limit holds over all of them, and their
conversation: what was redacted, and what Core has been shown. A nested run uses those of the run around it.
A run that belongs to no session has its own, and ends them. A shared session goes on after its runs until
``end_session``, until no run has used it for a time, or until the end of the governance: nobody else can
know that no further run comes, and forgetting it would forget what its limits have counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from ...acel.engine.call.session_gate import KeptSession
from ...acel.session import engine_of
from ...errors import GovernanceBlockedError
from ..conversations import Conversation, Quotes
from ..evidence import Recorder

if TYPE_CHECKING:
    from ..._wire.identity import RunIdentity
    from ...acel.session import Session
    from ...acel.violations import Violation


log = logging.getLogger(__name__)

KEPT_UNUSED: Final = 10_000
"""How many sessions are remembered although they count nothing."""

LOOKED_AT: Final = 16
"""How many old sessions are looked at for one that counts nothing, before there is need for room."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContractSession:
    """
    Hold a session of contracts and what goes with it.

    Attributes:
        contracts: The session itself, which keeps its violations in `recorder`; None where there are no
            contracts, only evidence.
        recorder: Keeps the evidence; None when nobody wants it.
        shared: Whether further runs may use it, so that none of them ends it.
    """

    contracts: Session | None
    recorder: Recorder | None
    shared: bool = False

    def end(self) -> tuple[Violation, ...]:
        """Admit nothing more, and give what is unmet; it is recorded."""
        return () if self.contracts is None else tuple(self.contracts.end_session())

    def end_run(self, run: str) -> tuple[Violation, ...]:
        """Give what one run leaves unmet of contracts that are about one run; it is recorded."""
        return () if self.contracts is None else tuple(engine_of(self.contracts).end_run(run))

    @property
    def kept(self) -> KeptSession | None:
        """Give the session in the store that keeps its memory, if one does."""
        gate = None if self.contracts is None else engine_of(self.contracts).kept
        return None if gate is None else gate.session

    def end_kept(self) -> None:
        """End it for every process, where a store keeps it."""
        gate = None if self.contracts is None else engine_of(self.contracts).kept
        if gate is not None:
            gate.end()

    def counts_nothing(self) -> bool:
        """Tell whether a new session would be no other: nothing is counted, owed, broken or under way."""
        if self.contracts is None or self.kept is not None:
            return True
        return engine_of(self.contracts).is_as_new() and not self.contracts.unmet()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndedSession:
    """
    Say what is left of a shared session that is over.

    Attributes:
        recorder: Where its evidence goes.
        unmet: The obligations that it leaves open.
        last_run: The run that joined it last.
    """

    recorder: Recorder | None
    unmet: tuple[Violation, ...]
    last_run: RunIdentity


BuildSession = Callable[[str, bool], ContractSession]
"""Makes contracts for a session or run of the given name, shared or not."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Shared:
    """Keep one shared session: its runs under way, and when the last of them ended."""

    contracts: ContractSession | None
    conversation: Conversation
    last_run: RunIdentity
    runs: int = 0
    left_at: float = 0.0

    def counts_nothing(self) -> bool:
        if self.runs or not self.conversation.redactions.is_empty:
            return False
        return self.contracts is None or self.contracts.counts_nothing()


class Sessions:
    """
    Keep the sessions of one governance. Safe for several threads.

    Args:
        build: Makes contracts.
        per_session: Whether runs with one session id share their contracts.
        durable: Whether what they share is kept in a store, where it outlives this process.
        idle_seconds: How long a session lasts that no run uses.
        limit: How many sessions that count something may be open.
        clock: Tells the time.
    """

    def __init__(
        self,
        build: BuildSession,
        *,
        per_session: bool,
        durable: bool = False,
        idle_seconds: float = 86_400.0,
        limit: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build = build
        self._per_session = per_session
        self.durable = durable
        self._idle_seconds = idle_seconds
        self._limit = limit
        self._clock = clock
        self._quotes = Quotes()
        # Of runs that belong to no session: each has one of its own, as long as it lasts.
        self._own = 0
        # The one that was used longest ago is the first.
        self._open: OrderedDict[str, _Shared] = OrderedDict()
        # Held while contracts are made, which may be the user's code: it may come back here.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._open) + self._own

    def enter(self, identity: RunIdentity) -> tuple[ContractSession, Conversation]:
        """
        Give a new run its contracts and its conversation.

        Raises:
            GovernanceBlockedError: Too many sessions are open that count something.
        """
        session_id = identity.session_id
        if session_id is None:
            own = self._build(identity.workflow_id, False)
            with self._lock:
                self._own += 1
            return own, self._quotes.conversation()
        with self._lock:
            shared = self._open.get(session_id)
            if shared is None:
                self._make_room()
                shared = self._begin(session_id, identity)
                self._open[session_id] = shared
            contracts = shared.contracts or self._build(session_id, False)
            self._open.move_to_end(session_id)
            shared.runs += 1
            shared.last_run = identity
            if contracts.kept is not None:
                contracts.kept.enter()
        return contracts, shared.conversation

    def rest(self, session: ContractSession) -> None:
        """Note that a run waits for a person: others may go on with a session that is kept in a store."""
        if session.kept is not None:
            session.kept.leave()

    def wake(self, session: ContractSession) -> None:
        """Note that a run which waited goes on."""
        if session.kept is not None:
            session.kept.enter()

    def leave(self, identity: RunIdentity, session: ContractSession, *, rests: bool = False) -> None:
        """Note that a run which entered has ended. One that `rests` has let go of its session before."""
        if not rests:
            self.rest(session)
        with self._lock:
            if identity.session_id is None:
                self._own -= 1
                return
            shared = self._open.get(identity.session_id)
            if shared is None:
                return  # it was ended meanwhile
            shared.runs -= 1
            shared.left_at = self._clock()
            self._open.move_to_end(identity.session_id)
            if not shared.runs:
                shared.conversation.rest()

    def end(self, session_id: str) -> EndedSession:
        """
        End a shared session. A run that comes later with this id begins a new one.

        Raises:
            KeyError: There is no open session of that id.
        """
        with self._lock:
            shared = self._open.pop(session_id)
        return _ended(shared)

    async def end_kept(self, identity: RunIdentity) -> EndedSession:
        """
        End a session that is kept in a store, for all processes. A run that comes later begins a new one.

        Raises:
            KeyError: There is no session of that id.
            FleetError: The store does not answer, or another process has the session.
        """
        session_id = identity.session_id or ""
        session, _ = self.enter(identity)
        assert session.kept is not None
        try:
            await session.kept.ahold()
            is_new = session.kept.is_new
            unmet = session.end()
            session.end_kept()
        finally:
            self.leave(identity, session)
        with self._lock:
            shared = self._open.pop(session_id, None)
        if is_new:
            raise KeyError(session_id)
        return EndedSession(
            recorder=session.recorder, unmet=unmet, last_run=identity if shared is None else shared.last_run
        )

    def let_go(self) -> None:
        """Leave every session that is kept in a store to other processes."""
        with self._lock:
            kept = [each.contracts.kept for each in self._open.values() if each.contracts is not None]
            self._open.clear()
        for session in kept:
            if session is not None:
                session.let_go()

    def end_idle(self) -> list[EndedSession]:
        """End the sessions that no run has used for too long."""
        since = self._clock() - self._idle_seconds
        ended = []
        with self._lock:
            for session_id, shared in list(islice(self._open.items(), LOOKED_AT)):
                if not shared.runs and shared.left_at <= since:
                    ended.append(self._open.pop(session_id))
        # One that is kept in a store may have been used elsewhere: it ends there, by the same time.
        return [_ended(shared) for shared in ended if not self.durable]

    def recall(self, text: str) -> str | None:
        """Look up what `text` became when it was redacted, in any run; None if it was not."""
        return self._quotes.recall(text)

    def open_ids(self) -> tuple[str, ...]:
        """List the session ids of the shared sessions that are open."""
        with self._lock:
            return tuple(self._open)

    def _begin(self, session_id: str, identity: RunIdentity) -> _Shared:
        contracts = self._build(session_id, True) if self._per_session else None
        if contracts is not None and contracts.contracts is None:
            contracts = None  # evidence alone needs no table: each run writes its own
        return _Shared(contracts=contracts, conversation=self._quotes.conversation(), last_run=identity)

    def _make_room(self) -> None:
        """Forget a session that counts nothing where there are many; refuse one where all of them count."""
        if len(self._open) < min(KEPT_UNUSED, self._limit):
            return
        full = len(self._open) >= self._limit
        for session_id, shared in islice(self._open.items(), None if full else LOOKED_AT):
            if shared.counts_nothing():
                del self._open[session_id]
                return
        if full:
            log.warning("%d sessions are open that count something; a further one is refused", self._limit)
            raise GovernanceBlockedError(
                f"{self._limit} sessions are open",
                remedy="end those that are over with end_session(session_id), or raise max_sessions",
            )


def _ended(shared: _Shared) -> EndedSession:
    contracts = shared.contracts
    return EndedSession(
        recorder=None if contracts is None else contracts.recorder,
        unmet=() if contracts is None else contracts.end(),
        last_run=shared.last_run,
    )
