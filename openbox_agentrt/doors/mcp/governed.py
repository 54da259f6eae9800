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
from dataclasses import dataclass
from typing import Any, Protocol

from ...acel import Session
from ...errors import ContractRefusedError
from ..judged_work import Governance, JudgedWork
from ..verdicts import told_of_verdict
from .refusal import refused_data, text_of

log = logging.getLogger(__name__)

_UNBOUND = object()


class ToolGovernance(Governance, Protocol):
    """Provide what the gate needs of a governance. `OpenBoxAgentRTGovernance` has it."""

    def run_scope(
        self, prompt: str = "", *, session_id: str | None = None
    ) -> AbstractAsyncContextManager[object]: ...


@dataclass(frozen=True, slots=True)
class _Opened:
    # What `run_scope` bound.
    bindings: "dict[contextvars.ContextVar[Any], Any]"


@dataclass(slots=True, eq=False)
class _Run:
    task: "asyncio.Task[None]"
    leaving: asyncio.Event
    opened: "asyncio.Future[_Opened]"


class ClientRuns:
    """Keep the runs of the clients, one for each session."""

    def __init__(self, governance: ToolGovernance) -> None:
        self._governance = governance
        self._runs: weakref.WeakKeyDictionary[Session, _Run] = weakref.WeakKeyDictionary()
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def run_of(self, session: Session) -> AsyncIterator[Governance]:
        """
        Bind the run of a session for one call, opening it if it is the session's first.

        Where it cannot be opened, the contracts are asked all the same, and what they let through is refused
        with what keeps the run from opening.
        """
        try:
            opened = await self._opened(session)
        except Exception as error:  # noqa: BLE001 - fail-closed: raised by every activity
            log.warning("the run of a client cannot be opened: %s", type(error).__name__)
            yield _NoRun(error)
            return
        tokens = [(variable, variable.set(value)) for variable, value in opened.bindings.items()]
        try:
            yield self._governance
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)

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
            async with self._governance.run_scope(session_id=session_id):
                bindings = {
                    variable: value
                    for variable, value in contextvars.copy_context().items()
                    if before.get(variable, _UNBOUND) is not value
                }
                opened.set_result(_Opened(bindings))
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


class _NoRun:
    """Stand for a governance without a run: nothing can be an activity of it."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def activity(
        self, activity_type: str, activity_input: Any = ()
    ) -> AbstractAsyncContextManager[JudgedWork]:
        raise self._error


def told_of_policy(error: Exception, tool: str) -> tuple[str, dict[str, Any]]:
    """Give text and structured half of what a client is told of a call that Core or a person stopped."""
    if isinstance(error, ContractRefusedError):
        return text_of(error.refusal), refused_data(error.refusal)
    refusal = {**told_of_verdict(error), "tool": tool}
    policy = getattr(error, "policy_id", None) or "OpenBox policy"
    violation = {"kind": "policy", "spec": policy, "tool": tool}
    return refusal["message"], {"acel_halted": True, "violation": violation, "refusal": refusal}
