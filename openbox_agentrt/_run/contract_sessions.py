"""
The contract sessions of a governance: which run uses which, and who ends them.

Runs with one session id share a session, so that a limit holds over all of them; a nested run uses that of
the run around it. A run that belongs to no session has one of its own, and ends it. A shared session goes on
after its runs, until ``end_session`` or the end of the governance: nobody else can know that no further run
comes, and forgetting it would forget what its limits have counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import GovernanceBlockedError
from .evidence import Recorder

if TYPE_CHECKING:
    from .._wire.identity import RunIdentity
    from ..acel.contracts.base import TemporalContract
    from ..acel.session import Session
    from ..acel.violations import Violation

MAX_SESSIONS = 10_000
"""How many shared sessions may be open. One more is refused: making room would forget a limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContractSession:
    """
    Hold a session and what goes with it.

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndedSession:
    """
    Say what is left of a shared session that is over.

    Attributes:
        unmet: The obligations that it leaves open.
        last_run: The run that joined it last.
    """

    session: ContractSession
    unmet: tuple[Violation, ...]
    last_run: RunIdentity


BuildSession = Callable[[str, bool], ContractSession]
"""Makes a session of the given name, shared or not."""


class ContractSessions:
    """
    Keep the sessions of one governance. Safe for several threads.

    Args:
        build: Makes a session.
        per_session: Whether runs with one session id share theirs.
        contracts: The contracts, where all sessions have the same ones.
    """

    def __init__(
        self, build: BuildSession, *, per_session: bool, contracts: tuple[TemporalContract, ...] = ()
    ) -> None:
        self.contracts = contracts
        self._build = build
        self._per_session = per_session
        self._shared: dict[str, ContractSession] = {}
        self._last_runs: dict[str, RunIdentity] = {}
        # Held while a session is built, which may be the user's code: it may come back here.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._shared)

    def for_run(self, identity: RunIdentity, *, around: ContractSession | None) -> ContractSession:
        """
        Give the session of a new run.

        Args:
            around: The session of the run around it, if that is one of this governance.

        Raises:
            GovernanceBlockedError: Too many shared sessions are open.
        """
        if around is not None:
            return around
        session_id = identity.session_id
        if session_id is None or not self._per_session:
            return self._build(session_id or identity.workflow_id, False)
        with self._lock:
            session = self._shared.get(session_id)
            if session is None:
                if len(self._shared) >= MAX_SESSIONS:
                    raise GovernanceBlockedError(
                        f"{MAX_SESSIONS} contract sessions are open",
                        remedy="end sessions that are over with governance.end_session(session_id)",
                    )
                session = self._shared[session_id] = self._build(session_id, True)
            self._last_runs[session_id] = identity
        return session

    def end(self, session_id: str) -> EndedSession:
        """
        End a shared session. A run that comes later with this id begins a new one.

        Raises:
            KeyError: There is no open session of that id.
        """
        with self._lock:
            session = self._shared.pop(session_id)
            last_run = self._last_runs.pop(session_id)
        return EndedSession(session=session, unmet=session.end(), last_run=last_run)

    def open_ids(self) -> tuple[str, ...]:
        """List the session ids of the shared sessions that are open."""
        with self._lock:
            return tuple(self._shared)
