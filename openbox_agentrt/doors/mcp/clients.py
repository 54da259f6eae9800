"""
The session in which a client's call is judged.

One for all clients, or one for each. A client that nothing tells from another gets none: a session for each
of its requests would look like enforcement and count nothing.
"""

import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from ..._picklable import PicklableError
from ...acel import Session
from .keys import ClientKey, KeyResolver, find_key
from .sessions import SessionTable, TooManySessionsError

log = logging.getLogger(__name__)

NO_KEY = "this server cannot tell its clients apart on this transport"
NO_KEY_REMEDY = (
    "serve clients with a session (stdio, or streamable HTTP without stateless_http), turn on "
    "authentication, pass key=..., or share one session among all clients"
)


class NoSessionError(PicklableError):
    """
    There is no session to judge a call in. The call did not run.

    Attributes:
        reason: Why, for the client as well as the log.
        remedy: What to do about it.
    """

    def __init__(self, *, reason: str, remedy: str) -> None:
        self.reason = reason
        self.remedy = remedy
        super().__init__(reason)


class OneForAll:
    """Give all clients one session, which its owner ends."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def greet(self, ctx: Any) -> None:
        pass

    def session_of(self, ctx: Any) -> AbstractContextManager[Session | None]:
        return nullcontext(self.session)

    def open_sessions(self) -> list[Session]:
        return [self.session]

    def extend(self, setup: Callable[[Session], object]) -> None:
        setup(self.session)

    def close(self, *, only: Callable[[ClientKey], bool]) -> None:
        pass


class SessionFactory:
    """Builds sessions, and sets them up in the order in which it was told to."""

    def __init__(self, build: Callable[[], Session]) -> None:
        self._build = build
        self.setups: list[Callable[[Session], object]] = []

    def __call__(self) -> Session:
        session = self._build()
        for setup in self.setups:
            setup(session)
        return session


class EachItsOwn:
    """Give each client a session, which ends with it."""

    def __init__(self, table: SessionTable, *, factory: SessionFactory, key: KeyResolver | None) -> None:
        self._table = table
        self._factory = factory
        self._key = key
        self._only_watching: bool | None = None
        # The sessions of connections that the SDK still holds, ended ones included. Programs written for
        # acel-core look here.
        self.by_connection: weakref.WeakKeyDictionary[Any, Session] = weakref.WeakKeyDictionary()

    def greet(self, ctx: Any) -> None:
        """Raise `NoSessionError` if the calls of a client that introduces itself could not be judged."""
        # A resolver may need what only a call brings.
        if self._key is not None or find_key(ctx) is not None:
            return
        if ctx.method != "initialize":
            # The client may still turn to the handshake, which gives it a session id if the server keeps any.
            log.info("a client is sent to the handshake: %s", NO_KEY)
        elif self._only_watches():
            return
        else:
            log.error("%s; %s", NO_KEY, NO_KEY_REMEDY)
        raise NoSessionError(reason=NO_KEY, remedy=NO_KEY_REMEDY)

    @contextmanager
    def session_of(self, ctx: Any) -> Iterator[Session | None]:
        """Give the session of the client for one call; `None` if the call is to pass unwatched."""
        key = find_key(ctx, self._key)
        if key is None:
            if not self._only_watches():
                log.error("a call was refused: %s; %s", NO_KEY, NO_KEY_REMEDY)
                raise NoSessionError(reason=NO_KEY, remedy=NO_KEY_REMEDY)
            log.warning("a call is not watched: %s; %s", NO_KEY, NO_KEY_REMEDY)
            yield None
            return
        with self._in_use(key) as session:
            yield session

    def open_sessions(self) -> list[Session]:
        found = {id(session): session for session in self._table.sessions()}
        found |= {id(session): session for session in self.by_connection.values()}
        return list(found.values())

    def extend(self, setup: Callable[[Session], object]) -> None:
        self._factory.setups.append(setup)

    def close(self, *, only: Callable[[ClientKey], bool]) -> None:
        self._table.close(only=only)

    @contextmanager
    def _in_use(self, key: ClientKey) -> Iterator[Session]:
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self._table.use(key))
            except TooManySessionsError as error:
                log.error("a call was refused: %s", error)
                raise NoSessionError(
                    reason="too many clients are connected", remedy="try again later"
                ) from error
            self._remember(key, session)
            yield session

    def _remember(self, key: ClientKey, session: Session) -> None:
        holder = key.anchor if key.connection is None else key.connection
        # By identity or not at all: equal descriptions of two clients would share an entry.
        if holder is None or type(holder).__hash__ is not object.__hash__:
            return
        known = holder in self.by_connection
        self.by_connection[holder] = session
        if key.connection is not None and not known:
            key.connection.exit_stack.callback(self._table.end, key.bare())

    def _only_watches(self) -> bool:
        # Asked of a session that is built for the question: the mode is known to nobody else.
        if self._only_watching is None:
            self._only_watching = self._factory().mode == "shadow"
        return self._only_watching


Clients = OneForAll | EachItsOwn
"""What the gate needs to know of the clients."""
