"""A user's hold on governance: one connection to Core, and the ways to put work under it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from openbox_core.context import activity_scope

from .._activity.binding import activity_context
from .._activity.custom import GovernedActivity, custom_activity
from .._activity.screening import screen_prompt
from .._halt import halt_of
from .._loop.contract_tools import ContractTools
from .._loop.coverage import Coverage, coverage_of
from .._loop.executor import wrap_tool_executor
from .._loop.install import Installation
from .._loop.loop import govern_loop
from .._loop.provider import wrap_provider
from .._loop.registry import wrap_tool_registry
from .._options.in_process import HaltingCore
from .._run.contracts.rules_in_force import Reloaded
from .._run.contracts.unmet import end_kept_session, end_shared_session, end_shared_sessions
from .._run.runs import Runs
from .._run.scope import RunScope
from .._run.state import RunState
from ..options import GovernanceOptions

if TYPE_CHECKING:
    from agent_rt import AgentLoop, ModelProvider, Toolbase, ToolExecutor, ToolRegistry
    from openbox_core.contracts.context import ActivityContext
    from openbox_core.runtime import OpenBoxRuntime

    from .._core.connection import Connection
    from .._run.contracts.rules_in_force import RulesInForce
    from ..acel.violations import Violation
    from ..fleet import Fleet


OBSERVERS_SECONDS = 5.0
"""How long closing waits for an ``on_decision`` that has to be awaited."""


L = TypeVar("L", bound="AgentLoop")
P = TypeVar("P", bound="ModelProvider")
R = TypeVar("R", bound="ToolRegistry | Toolbase")
E = TypeVar("E", bound="ToolExecutor")


class OpenBoxAgentRTGovernance:
    """
    Govern the agents of Agent-RT. Made by `create_openbox_agentrt`.

    It may be used from any number of tasks, event loops and threads. Close it with `aclose`, or use it as an
    ``async with`` block.

    Attributes:
        options: The options in force.
        core: The Core in this process; None for a remote one, and for none.
    """

    def __init__(
        self,
        connection: Connection,
        options: GovernanceOptions,
        runs: Runs,
        rules: RulesInForce,
        *,
        core: Any = None,
        fleet: Fleet | None = None,
        close_with: ExitStack,
    ) -> None:
        self.options = options
        self.core = core
        self._connection = connection
        self._runs = runs
        self._rules = rules
        self._fleet = fleet
        self._close_with = close_with
        self._installation = Installation(runs)
        self._contract_tools = ContractTools(() if rules.source is None else rules.source.contracts)
        rules.tell(lambda source, _: self._contract_tools.replace(source.contracts))

    @property
    def runtime(self) -> OpenBoxRuntime:
        """Give the runtime of openbox_core."""
        return self._connection.runtime

    @property
    def counts(self) -> Mapping[str, int]:
        """Count what the gate to Core has done: requests, retries, ungoverned events, lost reports."""
        return self._connection.gate.counts.to_dict()

    def govern_loop(self, loop: L, *, strict: bool = False) -> L:
        """
        Make a governed copy of an AgentLoop, which is not changed. It shares the loop's registry, stores and
        budgets.

        Contracts that name tools which the registry does not have are said in the log, with the nearest name.

        Args:
            strict: Refuse such contracts instead.

        Raises:
            OptionError: `strict`, and a contract names a tool that the registry does not have.
            TypeError: `loop` is no AgentLoop, or has methods patched in a way that would step around
                governance.
        """
        governed = govern_loop(loop, self._runs)
        self._contract_tools.check(loop, strict=strict)
        return governed

    def wrap_provider(self, provider: P) -> P:
        """Make a governed stand-in for a model provider. It can only be called inside a run."""
        return cast("P", wrap_provider(provider, self._runs))

    def wrap_tool_registry(self, registry: R) -> R:
        """Make a governed stand-in for a ToolRegistry or Toolbase. It can only be called inside a run."""
        return cast("R", wrap_tool_registry(registry, self._runs))

    def wrap_tool_executor(self, executor: E) -> E:
        """Make a governed stand-in for a ToolExecutor. It can only be called inside a run."""
        return cast("E", wrap_tool_executor(executor, self._runs))

    def install(self) -> None:
        """
        Govern every ``AgentLoop.run`` of the process, also of loops that a library builds for itself.

        Not promised: what never goes through ``AgentLoop.run``, such as the langchain and llamaindex
        agents; and model calls that a subclass makes in its own `run`, outside ``super().run``. `coverage`
        says what escapes.

        Raises:
            GovernanceError: Another governance is installed.
        """
        self._installation.install()

    def uninstall(self) -> None:
        """Undo what `install` did. Runs that are under way stay governed."""
        self._installation.uninstall()

    def coverage(self, loop: AgentLoop) -> Coverage:
        """Report what of `loop` is governed, and what escapes, as far as its attributes tell."""
        return coverage_of(
            loop,
            self._runs,
            installed=self._installation.active,
            hooks=self._connection.hooks.targets,
        )

    def run_scope(
        self,
        prompt: str = "",
        *,
        agent_name: str | None = None,
        session_id: str | None = None,
        subject: Mapping[str, Any] | None = None,
    ) -> RunScope:
        """
        Make an ``async with`` block that is one governed run, for work that is not an ``AgentLoop.run``.

        The prompt is screened before the block runs. Set ``run.result`` to what the run gives, for its last
        event.

        Args:
            prompt: What the user asked; blank for a run without one.
            agent_name: Name of the agent, when the options do not name it.
            session_id: Session of this run, instead of the one that the options name.
            subject: What the run is about, such as ``{"customer": "c-7"}``: a contract with
                ``key="$subject.customer"`` holds for each customer, whatever a model says.

        Raises:
            TypeError: On entering, `subject` is no mapping of names to texts or whole numbers.
            GovernanceError: On entering, the prompt is refused; on leaving, the run was halted.
        """
        return RunScope(
            self._runs,
            screen_prompt,
            prompt=prompt,
            agent_name=agent_name,
            session_id=session_id,
            subject=subject,
        )

    def activity_scope(
        self, run: RunState, activity_id: str, activity_type: str
    ) -> AbstractContextManager[ActivityContext]:
        """
        Attribute the nested I/O of a ``with`` block to an activity of `run`. Nothing is judged, and nothing
        is sent.

        Do not ``yield`` inside the block: the activity would be bound in the caller as well.
        """
        context = activity_context(run.identity, activity_id, activity_type)
        return activity_scope(context, store=self._connection.store)

    @asynccontextmanager
    async def activity(self, activity_type: str, activity_input: Any = ()) -> AsyncIterator[GovernedActivity]:
        """
        Have a piece of work of your own judged before the block runs, and closed when it ends.

        Set what it gives as the activity's `output`, and read it there again after the block: with
        ``outputs="enforce"``, that is what may be seen of it.

        Args:
            activity_type: What policies and contracts call it.
            activity_input: What is judged: a list of arguments, or one argument.

        Raises:
            GovernanceError: The block may not run.
        """
        items = list(activity_input) if isinstance(activity_input, list | tuple) else [activity_input]
        run = self._runs.around(activity_type)
        async with custom_activity(run, activity_type, items) as activity:
            yield activity

    @property
    def rules_hash(self) -> str | None:
        """Name the rules that are in force by their hash; None where there are none, or code builds them."""
        return self._rules.hash

    def reload(self) -> Reloaded:
        """
        Read the rules file again, and put it in force everywhere at once.

        Open sessions go on under the new rules: what equal contracts count - the same memory of the same
        calls, key and window; limits are not part of it - stays counted, a contract that is new begins now,
        and calls under way end by the rules that they began by. The initial state of a changed file is for
        new sessions. The change is in the evidence, with both hashes. It blocks while the file is read.

        Returns:
            The hashes of both, and how many sessions were open.

        Raises:
            OptionError: The contracts are no file, or it cannot be used. The rules that were in force stay.
        """
        return self._rules.reload()

    def end_session(self, session_id: str) -> tuple[Violation, ...]:
        """
        End the session of `session_id`: what its runs share, contracts and redactions. A run that comes later
        with this id begins a new one. Sessions that are not ended end when no run has used them for
        `session_idle_seconds`, and when the governance is closed.

        Returns:
            The obligations that are unmet. They are in the evidence and in the metrics, and `on_decision`
            was told of them.

        Raises:
            KeyError: No run of that session came by, or it was ended before.
            RuntimeError: Sessions are durable, so that a store has to be asked: see `aend_session`.
        """
        if self._runs.services.sessions.durable:
            raise RuntimeError("a durable session is ended by: await governance.aend_session(session_id)")
        return end_shared_session(self._runs.services, session_id)

    async def aend_session(self, session_id: str) -> tuple[Violation, ...]:
        """
        Do as `end_session`, for durable sessions as well: one that ends is over for every process.

        Raises:
            KeyError: There is no session of that id, or it was ended before.
            SessionBusyError: Another process has it, and still had it after five seconds.
            FleetUnavailableError: The store does not answer.
        """
        services = self._runs.services
        if services.sessions.durable:
            return await end_kept_session(services, session_id)
        return end_shared_session(services, session_id)

    def halt(
        self,
        *,
        run_id: str | None = None,
        session_id: str | None = None,
        agent: str | None = None,
        reason: str,
        by: str = "",
    ) -> int:
        """
        Let nothing more start in one run, in one session, or by one agent. May be called from any thread.

        It is in force at the next gate of each run that is meant and of the runs around it, whoever judges
        there; runs that open later are halted as well, as long as this governance lasts. A call that waits
        for a person does not run. Work that is running is not undone. Sessions of that name or agent that
        doors of this process judge by, without a governance, admit nothing more from their next call on.

        A Core in this process is told, and then halts them in every process that shares its file. So is the
        store of the fleet: every process with it halts them within about a second.

        Args:
            reason: Why; the agent is told, and the evidence keeps it.
            by: Who halts it; nobody checks it.

        Returns:
            How many open runs of this governance are halted by it.

        Raises:
            ValueError: Not exactly one is named, or there is no reason.
            FleetUnavailableError: The store of the fleet does not answer. In this process it is halted; who
                else hears of it is not known.
        """
        halt = halt_of(
            run_id=run_id, session_id=session_id, agent=agent, reason=reason, by=by, at=time.time()
        )
        if isinstance(self.core, HaltingCore):
            self.core.halt(run_id=run_id, session_id=session_id, agent=agent, reason=reason, by=by)
        return self._runs.halts.decree(halt)

    async def aclose(self) -> None:
        """
        Tell Core what it does not know yet, remove the hooks and close the connections. May be called
        twice, and from another event loop.

        Runs that wait for an approval are closed, unless the store of the fleet keeps them: those can be
        resumed by another governance. Durable sessions are left to others, and the rest ends.
        """
        if self._runs.closed:
            return
        self._runs.closed = True
        self._runs.halts.close()
        self.uninstall()
        self._runs.suspended.close()
        if self._runs.parking is not None:
            await self._runs.parking.settle()
        end_shared_sessions(self._runs.services)
        try:
            if self._fleet is not None:
                await self._fleet.aclose()
            await self._connection.aclose()
            await self._runs.services.observers.settle(seconds=OBSERVERS_SECONDS)
        finally:
            self._close_with.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        state = "closed" if self._runs.closed else "open"
        return f"<OpenBoxAgentRTGovernance {self.runtime.config.api_url} {state}>"
