"""
The one place where the judges are joined: an earlier halt, the local contracts, Core, and people.

They are asked in this order and the stricter answer wins. Nothing is asked that cannot change the outcome:
a call that the contracts refuse costs no round trip. A reservation that the contracts made is taken back
when anybody after them objects, so a call that never ran has not happened. Every case leaves one decision
behind.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from openbox_core.contracts.results import Verdict

from .._core.gate import raise_for_answer
from .._core.outbox import Drain
from .._run.contract_events import signal_violation
from .._run.contract_source import contract_sessions
from .._run.hooks import Refusals
from .._run.observers import Observers
from .._run.state import POSITION
from .._run.suspended import Pauses
from ..decision import MISSING
from ..errors import (
    ApprovalExpiredError,
    ApprovalRejectedError,
    ApprovalTimeoutError,
    ContractRefusedError,
    GovernanceBlockedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
    GuardrailsValidationError,
    UngovernedCallError,
)
from .obligations import constrained
from .record import Docket
from .request import ApprovalPending, Case, Ruling, Waiting

if TYPE_CHECKING:
    from openbox_core.context import ContextStore

    from .._core.asking import Gate
    from .._run.contract_sessions import ContractSessions
    from .._run.contracts import Reservation
    from .._run.state import RunState
    from ..decision import Answer, ApprovalOutcome
    from ..options import GovernanceOptions


class Judge:
    """
    Decides cases for all runs of one governance.

    Attributes:
        gate: Core.
        options: The options of the governance.
        store: Where the base SDK's instrumentation looks up the activity that nested I/O belongs to.
        drain: Reports of all runs that Core does not have yet.
        refusals: Told of what is refused inside an activity.
        pauses: Runs that wait for a person.
        sessions: Which run uses which contracts.
        observers: Told of every decision.
        agent_did: Identity of the agent, where it has one of the kind that hands over.
        marker_key: Key of the marks that stand for results which must not be seen.
        loop_classes: Classes of governed loops, by the class that they govern.
        closed: Whether the governance was closed: no run starts any more.
    """

    def __init__(
        self,
        gate: Gate,
        options: GovernanceOptions,
        store: ContextStore,
        *,
        refusals: Refusals | None = None,
        agent_name: str | None = None,
        agent_did: str | None = None,
        sessions: ContractSessions | None = None,
        observers: Observers | None = None,
    ) -> None:
        self.gate = gate
        self.options = options
        self.store = store
        self.drain = Drain()
        self.refusals = Refusals() if refusals is None else refusals
        self.pauses = Pauses(options.approval_max_wait_ms)
        self.sessions = contract_sessions(options, None, None) if sessions is None else sessions
        self.observers = Observers(observe=options.on_decision) if observers is None else observers
        self._agent_name = agent_name or options.agent_name
        self.agent_did = agent_did or options.agent_did
        self.marker_key = secrets.token_bytes(32)
        self.loop_classes: dict[type[Any], type[Any]] = {}
        self.closed = False

    def name_of_agent(self, name: str | None) -> str | None:
        """The configured name, or `name` of the agent that runs."""
        return self._agent_name or name

    def run_for(self, event: str) -> RunState:
        """
        The run that `event` happens in: the innermost one of this governance around the calling task.

        Raises:
            UngovernedCallError: There is none, or it has ended.
        """
        position = POSITION.get()
        own = None if position is None else position.in_run_of(self)
        if own is None:
            raise UngovernedCallError(event)
        return own.run

    async def decide(self, run: RunState, case: Case, *, asking: Callable[[], None] | None = None) -> Ruling:
        """
        Let `case` happen, or raise what forbids it.

        Args:
            asking: Called right before Core is asked: from then on, Core may have a row for the case.

        Raises:
            GovernanceError: Somebody objected, or could not be asked and may not be passed over.
            ApprovalPending: A person has to decide and the run can pause for it.
        """
        docket = Docket(run, case)
        self._check_run(docket)
        reservation = None if run.contracts is None else await self.reserve(docket)
        try:
            return await self._ask_core(docket, reservation, asking)
        except ApprovalPending:
            raise
        except BaseException as error:
            docket.conclude(error)
            if reservation is not None:
                reservation.abort(error)
            raise

    async def resume(self, run: RunState, waiting: Waiting) -> Ruling:
        """
        Go on with a case that paused for an approval. It is not judged again: that would reset what the
        person decided.

        Raises:
            GovernanceError: The person said no, or the approval ran out.
            ApprovalPending: Nobody has decided yet.
        What the contracts have reserved stays the caller's, whatever comes of it.
        """
        docket = Docket(run, waiting.case, facts=dict(waiting.facts))
        try:
            self._check_run(docket)
            return await self._conclude(docket, waiting.answer, waiting.reservation, resumed=True)
        except ApprovalPending:
            raise
        except BaseException as error:
            docket.conclude(error)
            raise

    def forget(self, run: RunState, waiting: Waiting) -> None:
        """Nobody will resume a case that paused for an approval."""
        Docket(run, waiting.case, facts=dict(waiting.facts)).close(
            Verdict.BLOCK, approval="timeout", reason="the run ended before anybody decided"
        )

    def _check_run(self, docket: Docket) -> None:
        refused = docket.run.refusal(docket.case.event)
        if isinstance(refused, GovernanceHaltError):
            raise docket.refused(refused, Verdict.HALT, source="halted", reason=refused.reason)
        if refused is not None:
            raise refused

    async def reserve(self, docket: Docket) -> Reservation | None:
        """
        Have the local contracts judge a case. What they allow is in flight from here on.

        Raises:
            ContractRefusedError: They refuse it. Nothing moved, and Core will hear of it by a signal.
        """
        contracts, case = docket.run.contracts, docket.case
        if contracts is None:
            return None
        began = perf_counter()
        reservation = await contracts.areserve(case.event, case.arguments, deferred=case.deferred)
        docket.facts["acel_seconds"] = perf_counter() - began
        docket.facts["contracts"] = tuple(violation.name for violation in reservation.violations)
        refusal = reservation.refusal
        if refusal is None:
            docket.facts["acel"] = "shadow" if reservation.violations else "allowed"
            return reservation
        specs = tuple(broken.name for broken in refusal.broken)
        docket.facts.update(acel="refused", contracts=specs)
        signal_violation(docket.run, case.event, specs, refusal.message)
        raise docket.refused(
            ContractRefusedError(refusal), Verdict.BLOCK, source="contracts", reason=refusal.message
        )

    async def _ask_core(
        self, docket: Docket, reservation: Reservation | None, asking: Callable[[], None] | None
    ) -> Ruling:
        run, case = docket.run, docket.case
        if case.envelope is None:
            decision = docket.close(Verdict.ALLOW, source="disabled")
            return Ruling(decision=decision, reservation=reservation, content=case.content)
        if run.is_behind():
            await run.catch_up()
        # Something that ended before may have been answered by a HALT only now.
        self._check_run(docket)
        event = case.envelope()
        if asking is not None:
            asking()
        began = perf_counter()
        try:
            answer = await self.gate.judge(event, destructive=case.destructive)
        except GovernanceUnavailableError as error:
            docket.facts["core_seconds"] = perf_counter() - began
            docket.facts["unreachable"] = error.kind == "outage"
            raise docket.refused(
                error, Verdict.BLOCK, source="unreachable", reason=error.reason
            ) from error.__cause__
        docket.facts["core_seconds"] = perf_counter() - began
        docket.note(answer)
        if answer.unreachable:
            run.ungoverned += 1
        if answer.verdict is not Verdict.ALLOW or answer.guardrails is not None:
            self._enforce(docket, answer)
            return await self._conclude(docket, answer, reservation)
        # Nothing to redact, to wait for or to satisfy.
        return self._passed(docket, answer, reservation, case.content)

    def _enforce(self, docket: Docket, answer: Answer) -> None:
        """HALT, then BLOCK, then the guardrails."""
        try:
            raise_for_answer(answer, event=docket.case.event)
        except GovernanceHaltError as halt:
            docket.refused(halt, Verdict.HALT)
            if answer.latches:
                docket.run.halt(halt, took_effect=True)
            raise
        except GuardrailsValidationError as error:
            docket.refused(error, Verdict.BLOCK, reason="; ".join(error.reasons) or None)
            raise
        except GovernanceBlockedError as error:
            docket.refused(error, Verdict.BLOCK)
            raise

    async def _conclude(
        self, docket: Docket, answer: Answer, reservation: Reservation | None, *, resumed: bool = False
    ) -> Ruling:
        """Redaction, a person's approval, constraints; and a last look whether the run still goes on."""
        content = self._redacted(docket, answer)
        if answer.verdict is Verdict.REQUIRE_APPROVAL:
            await self._approved(docket, answer, reservation, resumed=resumed)
        # Whatever else was asked for: a person who approves a call does not lift its constraints.
        guards = await constrained(docket, answer) if answer.constraints else ()
        return self._passed(docket, answer, reservation, content, guards)

    def _passed(
        self,
        docket: Docket,
        answer: Answer,
        reservation: Reservation | None,
        content: Any,
        guards: tuple[Any, ...] = (),
    ) -> Ruling:
        # While Core or a person was asked, a parallel call may have halted the run, or the run may have
        # ended.
        self._check_run(docket)
        decision = docket.close(answer.verdict, source="unreachable" if answer.unreachable else "core")
        return Ruling(decision=decision, reservation=reservation, content=content, guards=guards)

    def _redacted(self, docket: Docket, answer: Answer) -> Any:
        guardrails, case = answer.guardrails, docket.case
        if guardrails is None or guardrails.redacted_input is MISSING:
            return case.content
        try:
            if case.fit is None:
                raise GovernanceUnavailableError(
                    "core redacted something that has no input", kind="unreadable"
                )
            content = case.fit(guardrails.redacted_input)
            docket.run.redactions.learn(case.content, content)
        except GovernanceUnavailableError as error:
            # Fail-closed: the raw input is never used in the place of a redaction that does not fit.
            raise docket.refused(error, Verdict.BLOCK, reason=error.reason) from None
        if content is not case.content:
            docket.facts["redacted"] = True
        return content

    async def _approved(
        self, docket: Docket, answer: Answer, reservation: Reservation | None, *, resumed: bool
    ) -> None:
        case = docket.case
        pauses = case.pausable and self.options.approval_mode == "pause"
        began = perf_counter()
        try:
            if not pauses:
                await self._person(docket, answer)
            elif not (resumed and await self._decided(docket, answer)):
                raise ApprovalPending(
                    Waiting(case=case, answer=answer, reservation=reservation, facts=dict(docket.facts))
                )
        except (ApprovalRejectedError, ApprovalExpiredError, ApprovalTimeoutError) as error:
            docket.facts.update(approval=_outcome(error), approval_seconds=perf_counter() - began)
            docket.refused(error, Verdict.BLOCK, reason=error.reason)
            raise
        docket.facts.update(approval="approved", approval_seconds=perf_counter() - began)

    async def _person(self, docket: Docket, answer: Answer) -> None:
        run, case = docket.run, docket.case
        await self.gate.approve(
            answer,
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            activity_id=case.activity_id or "",
            cancelled=lambda: run.refusal(case.event),
            event=case.event,
        )

    async def _decided(self, docket: Docket, answer: Answer) -> bool:
        run, case = docket.run, docket.case
        return await self.gate.approved(
            answer,
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            activity_id=case.activity_id or "",
            event=case.event,
        )


def _outcome(error: GovernanceError) -> ApprovalOutcome:
    if isinstance(error, ApprovalExpiredError):
        return "expired"
    return "timeout" if isinstance(error, ApprovalTimeoutError) else "rejected"
