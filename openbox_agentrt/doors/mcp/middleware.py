"""
The gate in an MCP server: every call is judged before its handler, and settled by what came of it.

It is a `ServerMiddleware` of the SDK. Put it last in the list: what stands after it could rewrite a call that
it has judged.
"""

import logging
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ..._extras import require
from ...acel import Session
from ...acel.outcome import OutcomeHook
from ..unfit import report_unclear
from .calls import CALL, InvalidCallError, gated_methods, read_call
from .clients import Clients, EachItsOwn, NoSessionError, OneForAll, SessionFactory
from .keys import ClientKey, KeyResolver
from .passage import answer, could_not_be_judged, judged, protocol_error
from .refusal import unjudged
from .sessions import DEFAULT_MAX_SESSIONS, SessionEnd, SessionTable
from .typed import ServerArguments

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from .governed import ClientRuns, ToolGovernance

log = logging.getLogger(__name__)


class ACELMiddleware:
    """
    Judges the calls of an MCP server's clients by the contracts of their sessions.

    Exactly one of `session` and `session_factory` is needed. With a factory, a client that nothing tells from
    another is not served: its handshake is refused, and so is every call.

    Args:
        session: One session for all clients. Its owner ends it.
        session_factory: Builds the session of each client. Such a session ends when its client goes, when it
            goes quiet, at `close`, and at the end of the process.
        key: Tells clients apart in the server's own way; see `openbox_agentrt.doors.mcp.keys` for the
            default.
        gate: Methods that are gated, of "tools/call", "resources/read" and "prompts/get".
        idle_timeout: Seconds without a call after which a session ends. `None` is half an hour for keys that
            have no end of their own, such as a principal, and never for those that end with a connection.
        max_sessions: Number of sessions that may be open at once; a new client beyond it is refused.
        on_session_end: Told of every session that ended. A good place to write its evidence.
        outcome: Says what became of a call whose result is complete and no error, from the value that it
            holds: "ok", "failed", "aborted" or "unknown".
        governance: An `OpenBoxAgentRTGovernance`. Calls that the contracts allow are judged by Core too, each
            as an activity of a run that lasts as long as the session.
        clock: Monotone clock, in seconds.

    Raises:
        MissingExtraError: If `mcp` is not installed.
    """

    def __init__(
        self,
        session: Session | None = None,
        *,
        session_factory: Callable[[], Session] | None = None,
        key: KeyResolver | None = None,
        gate: Iterable[str] = (CALL,),
        idle_timeout: float | None = None,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        on_session_end: Callable[[SessionEnd], None] | None = None,
        outcome: OutcomeHook | None = None,
        governance: "ToolGovernance | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require("mcp", extra="mcp")
        self._gate = gated_methods(gate)
        self._arguments = ServerArguments()
        self._outcome = outcome
        self._runs = None if governance is None else _runs_of(governance)
        # Where programs written for acel-core look for the sessions.
        self._sessions_by_connection: weakref.WeakKeyDictionary[Any, Session] = weakref.WeakKeyDictionary()
        self._clients: Clients
        if session is not None and session_factory is None:
            self._clients = OneForAll(session)
        elif session_factory is not None and session is None:
            factory = SessionFactory(session_factory)
            table = SessionTable(
                factory,
                idle_timeout=idle_timeout,
                max_sessions=max_sessions,
                clock=clock,
                on_end=partial(_ended, on_session_end, self._runs),
            )
            each = EachItsOwn(table, factory=factory, key=key)
            self._clients, self._sessions_by_connection = each, each.by_connection
            weakref.finalize(self, table.close)
        else:
            raise ValueError(
                "exactly one of session and session_factory is needed, "
                f"got session={session!r}, session_factory={session_factory!r}"
            )

    @property
    def is_per_connection(self) -> bool:
        """Tell whether each client has a session of its own."""
        return isinstance(self._clients, EachItsOwn)

    def sessions(self) -> list[Session]:
        """List the sessions that are open, and those whose connection the SDK still holds."""
        return self._clients.open_sessions()

    def extend(self, setup: Callable[[Session], object]) -> None:
        """
        Set up every session of the gate further, e.g. with the contracts of a rules file.

        Args:
            setup: Called with the shared session now, or with each session that the factory builds from now
                on.
        """
        self._clients.extend(setup)

    def close(self, *, only: Callable[[ClientKey], bool] = lambda key: True) -> None:
        """
        End the sessions that the factory built, or those of them whose key is asked for.

        Not promised: that Core has heard of the end of their runs. `aclose` waits for that.
        """
        self._clients.close(only=only)

    async def aclose(self, *, only: Callable[[ClientKey], bool] = lambda key: True) -> None:
        """Close as `close` does, and wait until Core has heard of the end of the runs that are over."""
        self._clients.close(only=only)
        if self._runs is not None:
            await self._runs.settle(left=not self.is_per_connection)

    async def __call__(self, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext") -> "HandlerResult":
        if ctx.method in ("initialize", "server/discover"):
            self._greet(ctx)
        if ctx.method not in self._gate:
            return await call_next(ctx)
        try:
            call = read_call(ctx.method, ctx.params)
        except InvalidCallError as error:
            self._report_unclear(ctx, error)
            # Fail-closed, in the words in which the SDK refuses it when it looks for itself.
            raise protocol_error("INVALID_PARAMS", "Invalid request parameters", data="") from error
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self._clients.session_of(ctx))
            except NoSessionError as error:
                return answer(ctx, *unjudged(call.tool, reason=error.reason, remedy=error.remedy))
            except Exception as error:
                # Fail-closed: a resolver or a factory that fails gives no session.
                raise could_not_be_judged(call) from error
            if session is None:
                return await call_next(ctx)
            return await judged(
                session,
                call,
                ctx,
                call_next,
                arguments=self._arguments,
                runs=self._runs,
                outcome=self._outcome,
            )

    def _report_unclear(self, ctx: "ServerRequestContext[Any, Any]", error: InvalidCallError) -> None:
        try:
            with self._clients.session_of(ctx) as session:
                if session is not None:
                    report_unclear(session, ctx.method, str(error))
        except Exception:
            # It is refused all the same, and nobody knows in whose evidence it would belong.
            log.exception("a call is refused that no session keeps: %s", error)

    def _greet(self, ctx: "ServerRequestContext[Any, Any]") -> None:
        try:
            self._clients.greet(ctx)
        except NoSessionError as error:
            # To a client of the current protocol revision, this error says that the server speaks an earlier
            # one: it goes on to the handshake, which gives it a session id where the server keeps sessions.
            raise protocol_error(
                "METHOD_NOT_FOUND", f"{error.reason}; {error.remedy}", data={"acel_halted": True}
            ) from error


def _runs_of(governance: "ToolGovernance") -> "ClientRuns":
    from .governed import ClientRuns

    return ClientRuns(governance)


def _ended(told: Callable[[SessionEnd], None] | None, runs: "ClientRuns | None", end: SessionEnd) -> None:
    if runs is not None:
        runs.leave(end.session)
    if told is not None:
        told(end)
