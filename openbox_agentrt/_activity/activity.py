"""
One governed activity: judged at its start, closed exactly once.

An activity owns three things: Core's row, which Core has from the moment it is asked; the reservation of the
local contracts, of which `ContractCall` tells; and the input to use. Every way out has to settle all three:
the refusal, the result, the error, the cancellation, the end of the run. What may follow what stands in
`MOVES`; closing is a move that gives the report to send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .._run import record
from .._run.current import POSITION
from .._run.report_answers import apply_report_answer
from .._wire.error_info import error_info, whole_error
from ..decision import Verdict
from ..errors import (
    ContractRefusedError,
    GovernanceError,
    UngovernedCallError,
)
from ..evidence.redaction.markers import keyed_digest
from ..lifecycle_events import PartialEvent, activity_completed
from .binding import activity_context
from .contract_call import ContractCall
from .endings import NO_RESPONSE, OUTLIVED_RUN, SUPERSEDED, status_of
from .life import MOVES

if TYPE_CHECKING:
    from openbox_core.contracts.context import ActivityContext
    from openbox_core.contracts.events import EventEnvelope

    from .._run.state import RunState
    from ..acel.events import Outcome
    from ..decision import Answer, Decision, DecisionSource, WorkOutcome
    from ..lifecycle_events import ActivityStatus
    from .judged_input import ApprovedInput
    from .life import State, Step
    from .request import DecisionRequest


class ApprovalPending(Exception):
    """A person has to decide, and the run can stop for it. No error: the activity is ``waiting``."""


class Activity(ContractCall):
    """
    A piece of work of a run that Core sees as one row. More attributes are those of `ContractCall`.

    Attributes:
        state: Where it is in its life.
        approved: The input that a person approved; None before that.
        facts: What is known of the decision so far.
        unheard: The question, as long as nobody knows whether Core has it.
        guards: Context managers that constraint handlers want around the work.
        shown_whole: Whether Core was shown all of what the work gave.
        refusals: What governance refused inside the work: a nested request, a nested run.
        denied: The refusal of a second judgement, made while the work was being prepared.
    """

    # Where it begins. Of what is asked for anew, `anew` begins again.
    state: State = "new"
    shown_whole = True
    approved: ApprovedInput | None = None
    denied: GovernanceError | ApprovalPending | None = None
    unheard: EventEnvelope | None = None
    guards: tuple[Any, ...] = ()
    _began: float | None = None
    _context: ActivityContext | None = None

    def __init__(self, run: RunState, request: DecisionRequest) -> None:
        self.run = run
        self.refusals: list[GovernanceError] = []
        position = POSITION.get()
        self._enclosing = None if position is None or position.run is not run else position.activity
        self._put(request)

    def _put(self, request: DecisionRequest) -> None:
        self.request = request
        self.content = request.content
        self.facts: record.Facts = {"activity_id": request.activity_id}
        if request.activity_id is not None:
            self.run.open_activities[request.activity_id] = self

    @property
    def id(self) -> str:
        """Core's id of the row; empty for a prompt. A second judgement gets a new one."""
        return self.request.activity_id or ""

    @property
    def context(self) -> ActivityContext:
        """The activity as the base SDK's instrumentation knows it."""
        if self._context is None:
            self._context = activity_context(self.run.identity, self.id, self.request.event)
        return self._context

    # How it is judged. `decide` calls these.

    def move(self, step: Step) -> None:
        """
        Go on in life, as `MOVES` says.

        Raises:
            UngovernedCallError: It is closed: its run has ended.
        """
        try:
            self.state = MOVES[self.state][step]
        except KeyError:
            if self.state == "closed":
                raise UngovernedCallError(self.request.event, remedy="its run has ended") from None
            raise RuntimeError(f"an activity that is {self.state} cannot {step}") from None

    def is_approved(self) -> bool:
        """Tell whether a person approved this input, or it has only got more since: a hook may add fields."""
        return self.approved is not None and self.approved.is_in(self.content)

    def is_redacted(self) -> bool:
        """Tell whether Core has put something in the place of the input."""
        return self.content is not self.request.content

    def use(self, content: Any) -> None:
        """Put `content` in the place of the input, as Core has said."""
        self.content = content
        self.facts["redacted"] = True

    def write(self, verdict: Verdict, source: DecisionSource) -> Decision:
        """Write the decision about it, with what is known."""
        self.decision = record.write(self.run, self.request.event, verdict, source, self.facts)
        return self.decision

    def refused(
        self, error: GovernanceError, verdict: Verdict, source: DecisionSource = "core", *, reason: str | None
    ) -> GovernanceError:
        """Write that it may not run, and give `error` with that decision."""
        if reason is not None:
            self.facts["reason"] = reason
        error.decision = self.write(verdict, source)
        return error

    def tell_enclosing(self, error: BaseException) -> None:
        """Let the work that called this know of a refusal, which it may swallow."""
        if self._enclosing is not None and isinstance(error, GovernanceError):
            self._enclosing.note_refusal(error)

    def digest_arguments(self) -> None:
        """Add to what is known of the decision a digest of the arguments, as they are to be used."""
        arguments = self.request.arguments_of(self.content)
        self.facts["arguments_digest"] = keyed_digest(arguments, self.run.services.marker_key)

    def write_outcome(self, outcome: WorkOutcome, *, result: Any = None, error: str | None = None) -> None:
        """
        Write what became of the work, where decisions are kept. The last that is written of a row counts.

        Args:
            outcome: ``ran``; ``failed``; ``withheld``: it ran, and its result was not handed on; ``aborted``:
                it was given up, before it began or in the middle.
            result: What it gave, of which a digest is kept.
            error: Type of what it failed with.
        """
        record.write_outcome(
            self.run,
            self.request.event,
            self.request.activity_id,
            outcome,
            began=self.ran,
            result=result,
            error=error,
        )

    def note_refusal(self, error: GovernanceError) -> None:
        """Remember that governance refused something inside the work, should the work swallow that."""
        self.refusals.append(error)

    def anew(self, request: DecisionRequest) -> None:
        """Put `request` in the place of what was judged: a changed input needs a new row. Does not wait."""
        self._post("cancelled", error=SUPERSEDED)
        self.move("anew")
        self.answer = self.decision = self.unheard = self._context = None
        self.guards = ()
        self._put(request)

    # How it runs: see `perform`.

    def begin(self) -> None:
        """
        Start the clock, since the work begins now.

        Raises:
            UngovernedCallError: The run has ended meanwhile.
        """
        self.move("begin")
        self._began = perf_counter()
        self.ran = True

    # How it ends.

    async def complete(
        self,
        output: Any,
        *,
        result: Any = None,
        outcome: Outcome = "ok",
        error: BaseException | None = None,
        measured: Mapping[str, Any] | None = None,
        shown: Mapping[str, Any] | None = None,
    ) -> Answer | None:
        """
        Close it because the work has come to its end, well or not, and gave something.

        Args:
            output: What Core is told.
            result: What postconditions see.
            outcome: What became of the work. What has not succeeded stays counted and allows nothing.
            error: What it failed with, if that is known.
            measured: Arguments that were deferred.
            shown: What the trace is to show of the input, if not the input.

        Returns:
            Core's answer to the report, which is never enforced.

        Raises:
            ContractRefusedError: The result breaks a postcondition and must not be used. The row is closed as
                failed.
        """
        try:
            if not self.ran:
                self.abort(None)  # a dry run: the work was let through and did not happen
            elif self.reservation is not None:
                await self.conclude(result, outcome, error, measured, shown)
        except BaseException as interruption:
            # The result is not to be used, or the commit was interrupted: either way the work failed.
            await self.fail(interruption)
            if isinstance(interruption, ContractRefusedError) and self.run.keeps_decisions:
                self.write_outcome("withheld")
            raise
        if outcome == "ok":
            event = self._close("completed", output=output)
        else:
            status: ActivityStatus = "cancelled" if outcome == "aborted" else "failed"
            event = self._close(status, error=self._failure(outcome, error), told=output)
        return None if event is None else await self._report(event)

    async def fail(self, error: BaseException) -> Answer | None:
        """
        Close it because the work failed, or never ran.

        Returns:
            Core's answer to the report; None if there is none, or nobody waits for it.
        """
        told = whole_error(error) if self.gives(error) else None
        event = self._close(status_of(error), error=self._failure("failed", error), told=told)
        self.abort(error)
        if event is None:
            return None
        if not isinstance(error, Exception):
            # A cancelled task must not wait for Core, and a closed generator cannot.
            self.run.reports.post(event, heed=self._apply_answer())
            return None
        return await self._report(event)

    def gives(self, error: BaseException) -> bool:
        """Tell whether an error is something that the work gave, and outputs are judged."""
        return (
            self.ran
            and self.run.services.enforces_outputs
            and status_of(error) == "failed"
            and not isinstance(error, GovernanceError)
        )

    def abandon(self, error: BaseException | None) -> None:
        """Close it, since its run ends: with `error`, or well. Does not wait."""
        if self.state == "ahead" and error is None:
            self._post("completed", output=NO_RESPONSE)
        else:
            self.leave(OUTLIVED_RUN if error is None else self.run.redactions.value(error_info(error)))

    def let_go(self) -> None:
        """Forget it if it waits for a person, since another process may have it; else close it."""
        if self.state != "waiting":
            self.abandon(None)
            return
        self.move("close")
        self.run.open_activities.pop(self.id, None)
        self.run.services.store.clear_activity_aborted(self.run.identity.workflow_id, self.id)
        reservation, self.reservation = self.reservation, None
        if reservation is not None:
            reservation.lease = None  # the store keeps it
            reservation.lose()

    def leave(self, error: Mapping[str, Any]) -> None:
        """Close it because nobody goes on with it any more. Does not wait."""
        if self.state == "waiting":
            self.facts["approval"] = "timeout"
            self.facts["reason"] = "the run ended before anybody decided"
            self.write(Verdict.BLOCK, "core")
        self._post("failed", error=error)

    def _report(self, event: EventEnvelope) -> Awaitable[Answer | None]:
        self.shown_whole = not isinstance(event, PartialEvent)
        beside = None if self.request.envelope is None else (self._enclosing or self.run)
        return self.run.reports.send(event, heed=self._apply_answer(), beside=beside)

    def _post(
        self, status: ActivityStatus, *, output: Any = None, error: Mapping[str, Any] | None = None
    ) -> None:
        event = self._close(status, output=output, error=error)
        self.abort(None)
        if event is not None:
            self.run.reports.post(event, heed=self._apply_answer())

    def _close(
        self,
        status: ActivityStatus,
        *,
        output: Any = None,
        error: Mapping[str, Any] | None = None,
        told: Any = None,
    ) -> EventEnvelope | None:
        """
        Close the row, and give the report of it; None when there is nothing to close, or to report.

        Args:
            told: What work that has failed gave all the same: somebody will read it, so Core has to.
        """
        if self.state == "closed":
            return None
        run, request = self.run, self.request
        row = request.activity_id or ""
        has_row = self.ran if request.envelope is None else self.state != "new"
        self.move("close")
        run.open_activities.pop(row, None)
        run.services.store.clear_activity_aborted(run.identity.workflow_id, row)
        if run.keeps_decisions:
            self._keep_outcome(status, output if told is None else told, error)
        if not request.reported or not has_row:
            return None
        if self.unheard is not None:
            # Told again, ahead of its end: Core deduplicates by ids, and an end without a start is no record.
            run.reports.post(self.unheard, heed=self._apply_answer())
        return activity_completed(
            run.identity,
            row,
            request.event,
            status=status,
            output=run.redactions.value(output),
            error=error,
            told=None if told is None else run.redactions.value(told),
            duration_ms=None if self._began is None else (perf_counter() - self._began) * 1000,
            max_bytes=run.services.options.max_payload_bytes,
        )

    def _keep_outcome(self, status: ActivityStatus, output: Any, error: Mapping[str, Any] | None) -> None:
        refused = self.decision is None or self.decision.verdict in (Verdict.BLOCK, Verdict.HALT)
        if self.request.activity_id is None or (refused and not self.ran):
            return  # a prompt, which is no work, or nobody let it through
        outcome: WorkOutcome = "ran" if status == "completed" else "failed"
        if not self.ran or status == "cancelled":
            outcome = "aborted"
        self.write_outcome(outcome, result=output, error=None if error is None else str(error.get("type")))

    def _failure(self, outcome: Outcome, error: BaseException | None) -> Mapping[str, Any]:
        """Say to Core what the work failed with."""
        if error is None:
            return error_info(type="UnsuccessfulCall", message=f"the outcome of the call is {outcome!r}")
        return self.run.redactions.value(error_info(error))

    def _apply_answer(self) -> Callable[[Answer], None]:
        return partial(
            apply_report_answer, self.run, event=self.request.event, activity_id=self.request.activity_id
        )
