"""A run from its first event to its last."""

from __future__ import annotations

import logging
from contextvars import Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._activity.cases import llm_activity, prompt_case
from .._core.outbox import Outbox
from .._wire.identity import RunIdentity
from ..errors import GovernanceError, GovernanceHaltError, find_governance_error
from ..evidence.redaction import redaction_marker
from ..lifecycle_events import handoff, workflow_started
from .close import close_run, settle_run
from .contract_events import RUN_STARTED, admit_run, broken_result
from .redactions import Redactions
from .state import POSITION, Position, RunState

if TYPE_CHECKING:
    from .._activity.judge import Judge

log = logging.getLogger(__name__)


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
        prompt: What the user asked; blank for a run without one.
        agent_name: Name of the agent, when the options do not name it.
        session_id: Session of this run, when the options do not name one.
        checkpoint: What an Agent-RT run is resumed from.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        prompt: str = "",
        agent_name: str | None = None,
        session_id: str | None = None,
        checkpoint: Any = None,
        pausable: bool = False,
    ) -> None:
        self._judge = judge
        self._prompt = prompt
        self._agent_name = agent_name
        self._session_id = session_id
        self._checkpoint = checkpoint
        self._pausable = pausable
        self._run: RunState | None = None
        self._token: Token[Position | None] | None = None

    async def __aenter__(self) -> RunState:
        if self._run is not None:
            raise RuntimeError("a run scope cannot be entered twice")
        if self._judge.closed:
            raise GovernanceError(
                "the governance has been closed", remedy="make another one for further runs"
            )
        resumed = self._resumed()
        run = self._run = resumed or self._new_run()
        self._token = POSITION.set(Position(run, None, POSITION.get()))
        if resumed is None:
            try:
                await self._announce(run)
                await admit_run(run)
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
            self._judge.pauses.park(run)
            return
        halt = _swallowed_halt(run, error)
        unmet = await self._end(run, halt or error)
        if halt is not None:
            raise halt from error
        if unmet is not None:
            raise unmet

    def _resumed(self) -> RunState | None:
        if self._checkpoint is None:
            return None
        return self._judge.pauses.take(
            self._checkpoint,
            agent_name=self._judge.name_of_agent(self._agent_name),
            session_id=self._session(),
        )

    def _session(self) -> str | None:
        return self._judge.options.session_id or self._session_id

    def _new_run(self) -> RunState:
        judge = self._judge
        position = POSITION.get()
        parent = position if position is not None and not position.run.ended else None
        own = None if parent is None else parent.in_run_of(judge)
        identity = RunIdentity.mint(
            task_queue=judge.options.task_queue,
            session_id=self._session(),
            agent_name=judge.name_of_agent(self._agent_name),
            parent_workflow_id=None if parent is None else parent.run.workflow_id,
            multi_agent_session_id=None if parent is None else parent.run.share_session(),
        )
        run = RunState(
            identity=identity,
            prompt=self._prompt,
            judge=judge,
            outbox=Outbox(judge.gate.report, judge.drain, ordered=judge.options.reports_in_background),
            redactions=Redactions(),
            parent=parent,
            pausable=self._pausable,
            session=judge.sessions.for_run(identity, parent=None if own is None else own.run),
        )
        judge.refusals.watch(run)
        return run

    async def _announce(self, run: RunState) -> None:
        if not self._judge.options.send_run_start_event:
            return
        await run.outbox.send(workflow_started(run.identity), heed=partial(run.heed, event=RUN_STARTED))
        giver = _handed_over_by(run)
        if giver is not None:
            await run.outbox.send(handoff(run.identity, giver))

    async def _screen(self, run: RunState) -> None:
        if not run.prompt.strip():
            return
        case = prompt_case(run, run.prompt)
        ruling = await self._judge.decide(run, case)
        if ruling.reservation is not None:
            failed = await ruling.reservation.acommit(
                args=case.arguments_of(ruling.content), shown=self._shown(run, ruling.content)
            )
            if failed is not None:
                raise broken_result(run, case, failed)
        if self._judge.options.send_llm_start_event:
            prescreen = llm_activity(run, ruling.content, activity_id=run.identity.prescreen_id)
            await prescreen.start()
            run.prescreen = prescreen

    def _shown(self, run: RunState, prompt: str) -> dict[str, Any] | None:
        if not self._judge.options.send_llm_start_event:
            return None
        # Core redacts prompts in the pre-screen, which comes after this. Its row shows the text.
        return {"prompt": redaction_marker(prompt, self._judge.marker_key), "characters": len(prompt)}

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


def _handed_over_by(run: RunState) -> str | None:
    """The identity of the agent around this one, if both have one and they are two agents."""
    if run.parent is None:
        return None
    giver, taker = run.parent.judge.agent_did, run.judge.agent_did
    return giver if taker is not None and giver != taker else None


def _swallowed_halt(run: RunState, error: BaseException | None) -> GovernanceHaltError | None:
    """The halt that the run has to end with although its block ended otherwise."""
    if error is not None and not isinstance(error, Exception):
        return None  # a cancellation stays one
    halt = run.halt_that_took_effect()
    if halt is None or (error is not None and isinstance(find_governance_error(error), GovernanceHaltError)):
        return None
    return halt
