"""The runs of one governance: which one a task is in, and how one begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._wire.identity import RunIdentity
from ..acel.match.keys import read_subject
from ..errors import UngovernedCallError
from .close import leave_session
from .contracts.unmet import tell_ended
from .conversations import Conversation
from .current import POSITION, Position
from .halts import Halts
from .paused.fleet_parking import Parking
from .paused.suspended_runs import SuspendedRuns
from .state import RunState

if TYPE_CHECKING:
    from .contracts.sessions import ContractSession
    from .nested_refusals import NestedRefusals
    from .paused.parked_run import LeaseStore, ParkedRun
    from .services import Services


class Runs:
    """
    Open the runs of one governance, and find them again.

    Attributes:
        services: What the governance gives to each of them.
        options: The options of the governance.
        suspended: Runs that wait for a person.
        parking: Where they are kept for other processes; None without a store of the fleet.
        refusals: Told of what is refused inside an activity.
        halts: What somebody has halted.
        loop_classes: Classes of governed loops, by the class that they govern.
        closed: Whether the governance was closed: no run starts any more.
    """

    def __init__(
        self, services: Services, refusals: NestedRefusals, leases: LeaseStore | None = None
    ) -> None:
        self.services = services
        self.options = services.options
        max_wait_ms = services.options.approval_max_wait_ms
        self.parking = None if leases is None else Parking(leases, max_wait_ms)
        self.suspended = SuspendedRuns(max_wait_ms)
        self.refusals = refusals
        self.halts = Halts()
        self.loop_classes: dict[type[Any], type[Any]] = {}
        self.closed = False

    def around(self, event: str) -> RunState:
        """
        Find the run that `event` happens in: the innermost one of this governance around the calling task.

        Raises:
            UngovernedCallError: There is none, or it has ended.
        """
        position = POSITION.get()
        if position is None or position.run.services is not self.services:
            position = self._innermost(position)
            if position is None:
                raise UngovernedCallError(event)
        return position.run

    def is_around(self) -> bool:
        """Tell whether the calling task is in a run of this governance, also in one that has ended."""
        return self._innermost(POSITION.get()) is not None

    def _innermost(self, position: Position | None) -> Position | None:
        """Find the innermost position in a run of this governance."""
        while position is not None and position.run.services is not self.services:
            position = position.outer
        return position

    def open(
        self,
        *,
        prompt: str = "",
        agent_name: str | None = None,
        session_id: str | None = None,
        pausable: bool = False,
        subject: Mapping[str, Any] | None = None,
        parked: ParkedRun | None = None,
    ) -> RunState:
        """
        Make a run, nested in the one around the calling task if there is one. Nothing is sent.

        Args:
            prompt: What the user asked.
            agent_name: Name of the agent.
            session_id: Its session.
            pausable: Whether it can stop for an approval and come back.
            subject: What it is about.
            parked: The run of another process that it goes on with, under its ids.

        Raises:
            GovernanceBlockedError: Too many sessions are open.
            TypeError: `subject` is none.
        """
        subject = None if subject is None else read_subject(subject)
        services, options = self.services, self.options
        position = POSITION.get()
        around = position if position is not None and not position.run.ended else None
        own = self._innermost(around)
        identity = (
            parked.run.identity
            if parked is not None
            else RunIdentity.mint(
                task_queue=options.task_queue,
                session_id=session_id or options.session_id,
                agent_name=services.name_of_agent(agent_name),
                parent_workflow_id=None if around is None else around.run.workflow_id,
                multi_agent_session_id=None if around is None else around.run.share_session(),
            )
        )
        if own is not None:
            member = own.run.member
        else:
            # One that was nested in a run of another process goes on in the session of that.
            member = identity if parked is None else replace(identity, session_id=parked.run.session_id)
        session, conversation = self._membership(member, None if own is None else own.run)
        run = RunState(
            identity=identity,
            prompt=prompt,
            services=services,
            reports=services.core.reports.outbox(ordered=options.reports_in_background),
            conversation=conversation,
            parent=None if around is None else around.run,
            parent_activity=None if around is None else around.activity,
            pausable=pausable,
            session=session,
            subject=subject,
            member=member,
            parking=self.parking,
        )
        if parked is not None:
            try:
                parked.enter(run)
            except BaseException:
                leave_session(run)
                raise
        self.refusals.watch(run)
        self.halts.watch(run)
        return run

    def _membership(
        self, identity: RunIdentity, around: RunState | None
    ) -> tuple[ContractSession, Conversation]:
        """Give a run its contracts and its conversation: those of the run around it, or of its session."""
        sessions = self.services.sessions
        if around is not None:
            conversation = Conversation(
                redactions=around.redactions, judged=around.judged, recall=sessions.recall
            )
            return around.session, conversation
        for ended in sessions.end_idle():
            tell_ended(self.services, ended)
        return sessions.enter(identity)
