"""A run from its first event to its last."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..errors import (
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    find_governance_error,
)
from ..fleet.errors import FleetError
from ..lifecycle_events import handoff, workflow_started
from .close import close_run, let_go, settle_run
from .contract_events import admit_run
from .current import POSITION, Position
from .paused.suspended_runs import carried_in, leases_in, runs_in
from .report_answers import note_start_answer

if TYPE_CHECKING:
    from .paused.parked_run import ParkedRun
    from .runs import Runs
    from .state import RunState


log = logging.getLogger(__name__)

Screen = Callable[["RunState"], Awaitable[None]]
"""Has the prompt of a run judged, and raises what forbids it."""


class RunScope:
    """
    An ``async with`` block that is one run.

    Entering it opens the workflow and screens the prompt: a prompt that is refused raises here, and the
    block does not run. Leaving it closes every row that is still open and the workflow, exactly once, and
    re-raises what ended the block. If the run was halted inside and the block swallowed that, leaving
    raises `GovernanceHaltError`.

    Not promised: that Core has heard of the end when a cancelled block returns. It is told in the
    background then, and ``aclose()`` of the governance waits for that.

    Args:
        runs: The runs of the governance.
        screen: Has the prompt judged.
        prompt: What the user asked; blank for a run without one.
        agent_name: Name of the agent, when the options do not name it.
        session_id: Session of this run, instead of the one that the options name.
        subject: What this run is about, such as a customer: ``$subject.customer`` in the key of a contract.
        checkpoint: What an Agent-RT run is resumed from.
        pausable: Whether the run can stop for an approval and come back.
    """

    def __init__(
        self,
        runs: Runs,
        screen: Screen,
        *,
        prompt: str = "",
        agent_name: str | None = None,
        session_id: str | None = None,
        subject: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
        pausable: bool = False,
    ) -> None:
        self._runs = runs
        self._screen = screen
        self._agent_name = agent_name
        self._session_id = session_id
        self._checkpoint = checkpoint
        self._open = partial(
            runs.open,
            prompt=prompt,
            agent_name=agent_name,
            session_id=session_id,
            subject=subject,
            pausable=pausable,
        )
        self._run: RunState | None = None
        self._token: Token[Position | None] | None = None

    async def __aenter__(self) -> RunState:
        if self._run is not None:
            raise RuntimeError("a run scope cannot be entered twice")
        if self._runs.closed:
            raise GovernanceError(
                "the governance has been closed", remedy="make another one for further runs"
            )
        resumed = await self._resumed()
        parked = None if resumed is not None else await self._parked()
        if resumed is None and parked is None:
            self._say_if_lost()
        run = self._run = resumed or self._opened(parked)
        self._token = POSITION.set(Position(run, None, POSITION.get()))
        if resumed is None:
            spans = run.services.observers.spans
            if spans is not None:
                run.span = spans.begin(run.identity, None if run.parent is None else run.parent.span)
            try:
                if parked is None:
                    await _announce(run)
                await admit_run(run)
                if parked is None:
                    await self._screen(run)
            except BaseException as error:
                # Refused, failed or cancelled: the workflow is open at Core and has to be closed.
                await self._end(run, error)
                raise
        return run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run = self._run
        if run is None:
            raise RuntimeError("a run scope was left that was never entered")
        if (
            error is None
            and run.paused
            and getattr(run.result, "termination_reason", None) == "waiting_for_approval"
        ):
            self._unbind()
            self._runs.suspended.suspend(run)
            return
        halt = _swallowed_halt(run, error)
        unmet = await self._end(run, halt or error)
        if halt is not None:
            raise halt from error
        if unmet is not None:
            raise unmet

    async def _resumed(self) -> RunState | None:
        """Find the run of this process that is resumed, unless another process has gone on with it."""
        if self._checkpoint is None:
            return None
        run = self._runs.suspended.take(self._checkpoint, **self._whose())
        parking = self._runs.parking
        if run is not None and run.parked and parking is not None:
            try:
                mine = await parking.retake(run)
            except BaseException as error:
                self._runs.suspended.suspend(run)
                raise _not_resumed(error) from error
            if not mine:
                let_go(run)
                return None
        if run is not None:
            run.result = None
        return run

    async def _parked(self) -> ParkedRun | None:
        """Take over the run of another process that is resumed, if it was kept for that."""
        parking = self._runs.parking
        if self._checkpoint is None or parking is None:
            return None
        messages = self._checkpoint.messages
        leases = leases_in(messages)
        if not leases:
            return None
        try:
            return await parking.take(
                leases, messages, carried_in(messages), inside=self._runs.is_around(), **self._whose()
            )
        except FleetError as error:
            raise _not_resumed(error) from error

    def _say_if_lost(self) -> None:
        for run_id in () if self._checkpoint is None else runs_in(self._checkpoint.messages):
            log.warning(
                "run %s waits for an approval in another process, which alone can resume it, or no more:"
                " its calls are judged afresh",
                run_id,
            )

    def _whose(self) -> dict[str, str | None]:
        return {
            "agent_name": self._runs.services.name_of_agent(self._agent_name),
            "session_id": self._session_id or self._runs.options.session_id,
        }

    def _opened(self, parked: ParkedRun | None) -> RunState:
        try:
            return self._open(parked=parked)
        except BaseException:
            # Too many sessions, or a subject that is none.
            if parked is not None:
                parked.give_back()
            raise

    async def _end(self, run: RunState, error: BaseException | None) -> BaseException | None:
        self._unbind()
        unmet = close_run(run, error)
        await settle_run(run, error)
        return unmet

    def _unbind(self) -> None:
        token, self._token = self._token, None
        if token is None:
            return
        try:
            POSITION.reset(token)
        except ValueError:
            # Left in another task than it was entered in; that task never saw the binding.
            log.debug("a run scope was left in another task")


def _not_resumed(error: BaseException) -> BaseException:
    """Say that a run was not resumed because the store that keeps it does not answer."""
    if not isinstance(error, FleetError):
        return error
    return GovernanceUnavailableError(str(error), event="resume", remedy="resume the same checkpoint later")


async def _announce(run: RunState) -> None:
    """Tell Core that the run starts. It may answer with a HALT, which stops the first gate."""
    if not run.services.options.send_run_start_event:
        return
    await run.reports.send(workflow_started(run.identity), heed=partial(note_start_answer, run))
    giver = _handed_over_by(run)
    if giver is not None:
        await run.reports.send(handoff(run.identity, giver))


def _handed_over_by(run: RunState) -> str | None:
    """Give the identity of the agent around this one, if both have one and they are two agents."""
    if run.parent is None:
        return None
    giver, taker = run.parent.services.agent_did, run.services.agent_did
    return giver if taker is not None and giver != taker else None


def _swallowed_halt(run: RunState, error: BaseException | None) -> GovernanceHaltError | None:
    """Find the halt that the run has to end with although its block ended otherwise."""
    if error is not None and not isinstance(error, Exception):
        return None  # a cancellation stays one
    halt = run.halt_that_took_effect()
    if halt is None or (error is not None and isinstance(find_governance_error(error), GovernanceHaltError)):
        return None
    return halt
