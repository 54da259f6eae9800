"""The state of one run: who it is, what is open in it, and whether something may start in it."""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from agent_rt import EXECUTION_TIMEOUT_ENV, tool_execution_limits_from_env

from ..acel.match.keys import About
from ..errors import GovernanceHaltError, UngovernedCallError
from .contracts.sessions import ContractSession

if TYPE_CHECKING:
    from agent_rt import ToolCall, ToolSideEffect

    from .._core.outbox import Outbox
    from .._wire.identity import RunIdentity
    from ..acel.session import Session
    from ..decision import Decision
    from ..errors import GovernanceError
    from ..fleet.answers import Lease
    from .conversations import Conversation
    from .redaction.carried_redactions import Carried
    from .services import Services
    from .spans import RunSpan


class OpenActivity(Protocol):
    """Stand for an activity that is not over; nothing else of it is the business of a run."""

    def note_refusal(self, error: GovernanceError) -> None:
        """Remember that governance refused something inside the work, should the work swallow that."""

    def abandon(self, error: BaseException | None) -> None:
        """Close it, since its run ends: with `error`, or well. Does not wait."""

    def take_lease(self, lease: Lease) -> bool:
        """Hold again what is reserved for it in the store of the fleet. Returns whether it needs that."""

    def let_go(self) -> None:
        """Forget it if it waits for a person, since another process may have it; else close it."""


class OpenStream(Protocol):
    """Stand for a model stream that nobody has read to its end."""

    def abandon(self, error: BaseException | None) -> None:
        """Close its row, since its run ends: with `error`, or well. Does not wait."""

    async def aclose(self) -> None:
        """Close the provider's stream."""


class RunKeeper(Protocol):
    """Keep runs that wait for a person in a store, see `paused.fleet_parking`."""

    def end(self, run: RunState, /) -> None:
        """Close one whose wait is over, unless another process took it. Does not wait."""

    def end_nested(self, run: RunState, /) -> None:
        """Close those nested in a run that wait and that no process has taken. Does not wait."""

    async def settle(self, run: RunState, /, *, seconds: float | None = None) -> None:
        """Wait for what `end` and `end_nested` have begun for a run in this event loop."""


MOST_DECISIONS = 500
"""Decisions that a run keeps: one that lasts for months must not grow with them."""

NO_SESSION = ContractSession(contracts=None, recorder=None)
"""For a run without contracts and without evidence."""


def _unknown(tool: str) -> ToolSideEffect | None:
    return None


class RunState:
    """
    Keep the state of one governed run. Made by ``run_scope``; its ids are never used again.

    Attributes:
        prompt: The prompt that was screened; empty when there was none.
        services: What the governance gives to its runs.
        parent: The run in which this one was started.
        parent_activity: The activity of `parent` in which it was started; None between activities.
        decisions: The last `MOST_DECISIONS` decisions, in order; evidence and ``on_decision`` get each.
        halted: The decision that halted the run; from there on, nothing starts.
        ungoverned: How many gates let something pass because Core could not be asked.
        result: What the run returned, for its terminal event; set by whoever runs it.
        redactions: What was redacted in the conversation that the run belongs to.
        judged: What of the conversation Core has been shown.
        recall: Tells what a text became that was redacted in another run; None if it was not.
        unjudged_calls: The calls that its model asked for last, by their ids, and that nobody has put to the
            contracts yet; none without contracts.
        altered_answer: Why the last answer of the model is not what it gave; None if it is.
        span: Its span, where spans are asked for.
        session: The contract session, and who keeps its evidence.
        contracts: The `acel.Session` that the run belongs to; None without contracts.
        keeps_decisions: Whether each decision, and what becomes of it, is kept as evidence.
        admitted: Whether the contracts have seen the run start.
        member: The run as a member of its session, which it leaves at its end.
        parked: What is kept in the store of the fleet of the calls that wait, by their rows.
        parking: Who keeps it there; None without a store of the fleet.
        carried: What the checkpoint carries of what was redacted, while the run waits there.
        nested_leases: Leases in that store of runs nested in this one, from before another process took it.
        rests: Whether it waits for a person, and has left a session that is kept in a store to others.
        taken_over: Calls that another process left waiting, by the hash of what was judged.
        estimate_cost: What a model's response has cost, when the loop has a way to tell.
        about: Whose calls those of the run are: its subject, and the run whose contracts of scope "run" they
            belong to.
        side_effect_of: What a tool is declared to do, when the loop has a registry that tells.
    """

    def __init__(
        self,
        *,
        identity: RunIdentity,
        prompt: str,
        services: Services,
        reports: Outbox,
        conversation: Conversation,
        member: RunIdentity,
        session: ContractSession | None = None,
        parent: RunState | None = None,
        parent_activity: OpenActivity | None = None,
        pausable: bool = False,
        subject: Mapping[str, Any] | None = None,
        parking: RunKeeper | None = None,
    ) -> None:
        self.identity = identity
        self.prompt = prompt
        self.parent = parent
        self.decisions: deque[Decision] = deque(maxlen=MOST_DECISIONS)
        self.halted: Decision | None = None
        self.ungoverned = 0
        self.result: Any = None
        self.services = services
        self.session = NO_SESSION if session is None else session
        self.member = member
        self.contracts: Session | None = self.session.contracts
        self.keeps_decisions = self.session.recorder is not None and services.observers.keeps_all
        self.admitted = False
        self.contracts_concluded = False
        self.estimate_cost: Callable[[Any], float] | None = None
        self.side_effect_of: Callable[[str], ToolSideEffect | None] = _unknown
        self.reports = reports
        self.redactions = conversation.redactions
        self.judged = conversation.judged
        self.recall = conversation.recall
        self.parent_activity = parent_activity
        self.open_activities: dict[str, OpenActivity] = {}
        self.open_streams: set[OpenStream] = set()
        self.nested_suspended: list[RunState] = []
        self.unjudged_calls: dict[str, ToolCall] = {}
        self.altered_answer: str | None = None
        self.span: RunSpan | None = None
        self.pausable = pausable
        self.paused: dict[str, list[Any]] = {}
        self.parked: dict[str, Lease] = {}
        self.parking = parking
        self.carried: Carried | None = None
        self.nested_leases: tuple[str, ...] = ()
        self.taken_over: dict[str, list[Any]] = {}
        self.suspended = False
        self.rests = False
        self.resumed = False
        self.ending = False
        self.ended = False
        self.about = self._about(subject)
        self._halt_error: GovernanceHaltError | None = None
        self._halt_took_effect = False

    @property
    def workflow_id(self) -> str:
        """Core's id of the workflow."""
        return self.identity.workflow_id

    @property
    def run_id(self) -> str:
        """Core's id of the run."""
        return self.identity.run_id

    @property
    def workflow_type(self) -> str:
        """Name of the agent, as Core shows it."""
        return self.identity.workflow_type

    @property
    def task_queue(self) -> str:
        """Name of the configured task queue."""
        return self.identity.task_queue

    @property
    def session_id(self) -> str | None:
        """Session that the run belongs to."""
        return self.identity.session_id

    @property
    def agent_name(self) -> str | None:
        """Name of the agent; None when nobody named it."""
        return self.identity.agent_name

    @property
    def multi_agent_session_id(self) -> str | None:
        """Shared by a run and the runs nested in it; None while there are none."""
        return self.identity.multi_agent_session_id

    def __repr__(self) -> str:
        state = "ended" if self.ended else "halted" if self.halted is not None else "open"
        return f"<RunState {self.workflow_type} {self.run_id} {state}>"

    def _about(self, subject: Mapping[str, Any] | None) -> About:
        around = self.parent.about if self.parent is not None and self.parent_shares_session else None
        if around is None:
            return About(subject=dict(subject or {}), run=self.run_id)
        return around if subject is None else replace(around, subject={**around.subject, **subject})

    @cached_property
    def tool_timeout(self) -> float | None:
        """Give the limit that the environment sets for all tools, as it is when the run first needs it."""
        if EXECUTION_TIMEOUT_ENV not in os.environ:
            return None
        limit: float | None = tool_execution_limits_from_env().timeout_seconds
        return limit

    @property
    def parent_shares_session(self) -> bool:
        """Tell whether the contracts are those of a run around this one, which ends them."""
        # Not the parent alone: a run of another governance may stand in between.
        run = self.parent
        while run is not None and run.session is not self.session:
            run = run.parent
        return run is not None

    def share_session(self) -> str:
        """Give the id that this run shares with the runs nested in it; from here on its events carry it."""
        shared = self.identity.multi_agent_session_id
        if shared is None:
            shared = str(uuid.uuid4())
            self.identity = replace(self.identity, multi_agent_session_id=shared)
        return shared

    def halt(self, error: GovernanceHaltError, *, took_effect: bool) -> None:
        """
        Let nothing more start in this run, nor in the runs around it.

        Args:
            took_effect: Whether it stopped something. A HALT that came with the answer to a report has not
                yet, and a run in which nothing more starts ends as it would have.
        """
        if self._halt_error is None:
            self._halt_error = error
            self.halted = error.decision
        self._halt_took_effect |= took_effect
        if self.parent is not None:
            if took_effect and self.parent_activity is not None:
                self.parent_activity.note_refusal(error)
            self.parent.halt(error, took_effect=took_effect)

    def is_behind(self) -> bool:
        """Tell whether there is something to `catch_up` with."""
        return bool(self.reports.pending) or (self.parent is not None and self.parent.is_behind())

    async def catch_up(self) -> None:
        """
        Wait until Core has answered what ended before in this run and in those around it.

        Core sees a run in its order, and judges nothing without having heard of what came before.
        """
        run: RunState | None = self
        while run is not None:
            if run.reports.pending:
                await run.reports.catch_up()
            run = run.parent

    def halted_by(self) -> GovernanceHaltError | None:
        """Find the halt that is in force here: of this run, or of one around it."""
        run: RunState | None = self
        while run is not None:
            if run._halt_error is not None:
                return run._halt_error
            run = run.parent
        return None

    def halt_that_took_effect(self) -> GovernanceHaltError | None:
        """Give the halt that stopped something here. The run ends with it, whoever caught it before."""
        return self._halt_error if self._halt_took_effect else None

    def must_stop(self) -> bool:
        """Tell whether the run may not take its next step. Asking means that it wanted to."""
        if self._halt_error is None and self.parent is None:
            return False
        return self._stopped_by() is not None

    def _stopped_by(self) -> GovernanceHaltError | None:
        halt = self.halted_by()
        if halt is not None:
            if self._halt_error is None:
                self._halt_error = halt
                self.halted = halt.decision
            self._halt_took_effect = True
        return halt

    def refusal(self, event: str) -> GovernanceError | None:
        """Give the reason why `event` may not start now, as far as the run itself knows; None when it may."""
        if self._halt_error is None and self.parent is None and not self.ending and not self.suspended:
            return None
        halt = self._stopped_by()
        if halt is not None:
            return GovernanceHaltError(
                halt.reason, event=event, policy_id=halt.policy_id, result=halt.result, decision=halt.decision
            )
        if self.ending or self.suspended:
            return UngovernedCallError(
                event, remedy="the run it belonged to has ended: start it inside a run"
            )
        return None
