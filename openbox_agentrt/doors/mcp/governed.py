"""
Calls that OpenBox Core judges too: each is an activity, in a run that lasts as long as its client's session.

A run is bound to the task that opened it, and every request of a client is a task of its own. The run is
therefore opened in a task that waits for the client to go, and what it bound is bound again around each call.
"""

import asyncio
import contextvars
import logging
import weakref
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from ..._run.contract_events import signal_violation
from ..._run.state import RunState
from ...acel import Refusal, Session
from ...errors import ContractRefusedError, GovernanceError
from ..core_verdict import told_of_verdict
from .calls import Call, rewritten
from .outcome import read_outcome
from .refusal import PolicyRefusalError, refused_data, text_of

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

__all__ = ("ClientRuns", "GovernedActivity", "ToolGovernance")

log = logging.getLogger(__name__)

_UNBOUND = object()


class GovernedActivity(Protocol):
    """An activity while it runs."""

    output: Any

    @property
    def input(self) -> list[Any]: ...


class ToolGovernance(Protocol):
    """What the gate needs of a governance. `OpenBoxAgentRTGovernance` has it."""

    def run_scope(
        self, prompt: str = "", *, session_id: str | None = None
    ) -> AbstractAsyncContextManager[object]: ...

    def activity(
        self, activity_type: str, activity_input: Any = ()
    ) -> AbstractAsyncContextManager[GovernedActivity]: ...


class _CallFailedError(Exception):
    """The tool's answer was not that it is done."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the call is {kind}")


@dataclass(frozen=True, slots=True)
class _Opened:
    # What `run_scope` gave, and what it bound.
    run: object
    bindings: "dict[contextvars.ContextVar[Any], Any]"


@dataclass(slots=True, eq=False)
class _Run:
    task: "asyncio.Task[None]"
    leaving: asyncio.Event
    opened: "asyncio.Future[_Opened]"


class ClientRuns:
    """The runs of the clients, one for each session."""

    def __init__(self, governance: ToolGovernance) -> None:
        self._governance = governance
        self._runs: weakref.WeakKeyDictionary[Session, _Run] = weakref.WeakKeyDictionary()
        self._ending: set[asyncio.Task[None]] = set()

    async def call(
        self, session: Session, call: Call, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext"
    ) -> "tuple[HandlerResult, dict[str, Any]]":
        """
        Have a call judged by Core, and run it.

        Returns:
            The result, and the arguments that ran: the call's, or Core's redacted copy.

        Raises:
            PolicyRefusalError: Core or a person decided against it, or Core could not be asked.
        """
        answered: list[HandlerResult] = []
        args = call.args
        try:
            async with (
                self._in_run(session),
                self._governance.activity(call.tool, [dict(call.args)]) as activity,
            ):
                args = dict(activity.input[0])
                if args != call.args:
                    ctx = replace(ctx, params=rewritten(ctx.method, ctx.params or {}, args))
                answered.append(await call_next(ctx))
                outcome = read_outcome(ctx.method, answered[0])
                activity.output = outcome.value
                if outcome.kind != "done":
                    # Core is to see a row that failed.
                    raise _CallFailedError(outcome.kind)
        except _CallFailedError:
            log.debug("a call to %r was not done", call.tool)
        except GovernanceError as error:
            raise PolicyRefusalError(*_told(error, call.tool)) from error
        return answered[0], args

    async def judges_by(self, session: Session) -> bool:
        """Whether the governance judges by this very session, which would count each call twice."""
        try:
            run = (await self._opened(session)).run
        except Exception:  # noqa: BLE001 - fail-closed where it counts: the call finds out for itself
            return False
        return isinstance(run, RunState) and run.contracts is session

    async def report(self, session: Session, refusal: Refusal) -> None:
        """Tell Core of a call that the contracts refused. It was not asked."""
        try:
            run = (await self._opened(session)).run
        except Exception as error:  # noqa: BLE001 - fail-closed already: the call is refused either way
            log.warning("core was not told of a refused call: %s", error)
            return
        if isinstance(run, RunState):
            specs = tuple(broken.name for broken in refusal.broken)
            signal_violation(run, refusal.tool, specs, refusal.message)

    def leave(self, session: Session) -> None:
        """End the run of a session."""
        run = self._runs.pop(session, None)
        if run is None or run.task.get_loop().is_closed():
            return
        run.task.get_loop().call_soon_threadsafe(run.leaving.set)
        self._ending.add(run.task)
        run.task.add_done_callback(self._ending.discard)

    async def settle(self, *, left: bool) -> None:
        """
        Wait until Core has heard of every run that is over.

        Args:
            left: End the others too.
        """
        if left:
            for session in list(self._runs):
                self.leave(session)
        here = [task for task in self._ending if task.get_loop() is asyncio.get_running_loop()]
        await asyncio.gather(*here, return_exceptions=True)

    @asynccontextmanager
    async def _in_run(self, session: Session) -> AsyncIterator[None]:
        opened = await self._opened(session)
        tokens = [(variable, variable.set(value)) for variable, value in opened.bindings.items()]
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)

    async def _opened(self, session: Session) -> _Opened:
        run = self._runs.get(session)
        if run is None or run.task.done():
            run = self._runs[session] = self._open(session)
        # One caller that gives up must not take the run from the others.
        return await asyncio.shield(run.opened)

    def _open(self, session: Session) -> _Run:
        loop = asyncio.get_running_loop()
        leaving, opened = asyncio.Event(), loop.create_future()
        # Whoever waits may have given up by then, which is no reason for a warning.
        opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        # A context of its own: the run is the client's, and not part of the request that happens to be first.
        task = loop.create_task(
            self._live(session.session_id, leaving, opened), context=contextvars.Context(), name="client run"
        )
        return _Run(task, leaving, opened)

    async def _live(
        self, session_id: str | None, leaving: asyncio.Event, opened: "asyncio.Future[_Opened]"
    ) -> None:
        before = contextvars.copy_context()
        try:
            async with self._governance.run_scope(session_id=session_id) as run:
                bindings = {
                    variable: value
                    for variable, value in contextvars.copy_context().items()
                    if before.get(variable, _UNBOUND) is not value
                }
                opened.set_result(_Opened(run, bindings))
                await leaving.wait()
        except asyncio.CancelledError:
            opened.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - handed to whoever waits, see below
            if not opened.done():
                opened.set_exception(error)
                return
            # The client has gone. A run that was halted ends with this error, and nobody is left to tell.
            log.info("the run of a client ended: %s", error)


def _told(error: GovernanceError, tool: str) -> tuple[str, dict[str, Any]]:
    if isinstance(error, ContractRefusedError):
        return text_of(error.refusal), refused_data(error.refusal)
    refusal = {**told_of_verdict(error), "tool": tool}
    policy = getattr(error, "policy_id", None) or "OpenBox policy"
    violation = {"kind": "policy", "spec": policy, "tool": tool}
    return refusal["message"], {"acel_halted": True, "violation": violation, "refusal": refusal}
