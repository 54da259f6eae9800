"""
One governed activity: judged at its start, closed exactly once.

An activity owns three things: Core's row, which Core has from the moment it is asked; the reservation of the
local contracts; and the input to use. Every way out has to settle all three: the refusal, the result, the
error, the cancellation, the end of the run. What may follow what stands in `MOVES`; closing is a move that
gives the report to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .._plain.freezing import freeze
from .._run import record
from .._run.contract_events import broken_result
from .._run.current import POSITION
from .._run.report_answers import apply_report_answer
from .._wire.error_info import error_info, whole_error
from ..acel.engine.lifecycle import aconclude
from ..decision import Verdict
from ..errors import (
    ContractRefusedError,
    GovernanceError,
    GovernanceHaltError,
    UngovernedCallError,
    find_governance_error,
)
from ..evidence.redaction import keyed_digest, redaction_marker
from ..lifecycle_events import PartialEvent, activity_completed
from .binding import Binding, activity_context
from .endings import NO_RESPONSE, OUTLIVED_RUN, SUPERSEDED, status_of
from .life import MOVES
from .refused_input import refused_input
from .request import sent_only

if TYPE_CHECKING:
    from openbox_core.contracts.context import ActivityContext
    from openbox_core.contracts.events import EventEnvelope

    from .._run.state import RunState
    from ..acel.events import Outcome
    from ..acel.reservation import Reservation
    from ..decision import Answer, Decision, DecisionSource, WorkOutcome
    from ..fleet.answers import Lease
    from ..lifecycle_events import ActivityStatus
    from .judged_input import ApprovedInput
    from .life import State, Step
    from .request import DecisionRequest

__all__ = ("Activity", "ApprovalPending")


class ApprovalPending(Exception):
    """A person has to decide, and the run can stop for it. No error: the activity is ``waiting``."""


class Activity:
    """
    A piece of work of a run that Core sees as one row.

    Attributes:
        run: The run that it belongs to.
        request: What was or will be judged.
        state: Where it is in its life.
        content: The input to use, after redaction; that of `request` before it was judged.
        approved: The input that a person approved; None before that.
        answer: Core's answer; None before it, and where Core is not asked.
        facts: What is known of the decision so far.
        decision: The decision; None before it was written.
        unheard: The question, as long as nobody knows whether Core has it.
        guards: Context managers that constraint handlers want around the work.
        ran: Whether the guarded work has begun to run.
        gave: Whether a part of what the work gives may have come; False for a model call before its answer.
        shown_whole: Whether Core was shown all of what the work gave.
        refusals: What governance refused inside the work: a nested request, a nested run.
        denied: The refusal of a second judgement, made while the work was being prepared.
    """

    # Where it begins. Of what is asked for anew, `anew` begins again.
    state: State = "new"
    ran = False
    gave = True
    shown_whole = True
    approved: ApprovedInput | None = None
    denied: GovernanceError | ApprovalPending | None = None
    answer: Answer | None = None
    decision: Decision | None = None
    unheard: EventEnvelope | None = None
    reservation: Reservation | None = None
    _concluded: Reservation | None = None
    guards: tuple[Any, ...] = ()
    _released = False
    _lease: Lease | None = None
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
        state = MOVES[self.state].get(step)
        if state is None:
            if self.state == "closed":
                raise UngovernedCallError(self.request.event, remedy="its run has ended")
            raise RuntimeError(f"an activity that is {self.state} cannot {step}")
        self.state = state

    def is_approved(self) -> bool:
        """Tell whether a person approved this input, or it has only got more since: a hook may add fields."""
        return self.approved is not None and self.approved.is_in(self.content)

    def is_redacted(self) -> bool:
        """Tell whether Core has put something in the place of the input."""
        return self.content is not self.request.content

    def write(self, verdict: Verdict, source: DecisionSource) -> Decision:
        """Write the decision about it, with what is known."""
        self.decision = record.write(self.run, self.request.event, verdict, source, **self.facts)
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
        """Write what became of the work, where decisions are kept."""
        digest = None if result is None else keyed_digest(result, self.run.services.marker_key)
        record.write_outcome(
            self.run,
            self.request.event,
            self.request.activity_id,
            outcome,
            began=self.ran,
            result_digest=digest,
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

    def bound(self) -> Binding:
        """Make the activity the current one in a ``with`` block, for nested calls and for nested I/O."""
        return Binding(self)

    def overruling(self, error: BaseException | None) -> GovernanceError | None:
        """Find the refusal that counts although the work returned, or raised something else."""
        if error is not None and not isinstance(error, Exception):
            return None
        if isinstance(self.denied, GovernanceError):
            return None if error is self.denied else self.denied
        for refusal in self.refusals:
            if isinstance(refusal, GovernanceHaltError):
                told = error is not None and isinstance(find_governance_error(error), GovernanceHaltError)
                return None if told else refusal
        return None

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
                self._abort(None)  # a dry run: the work was let through and did not happen
            elif self.reservation is not None:
                await self._conclude(result, outcome, error, measured, shown)
        except BaseException as interruption:
            # The result is not to be used, or the commit was interrupted: either way the work failed.
            await self.fail(interruption)
            if isinstance(interruption, ContractRefusedError) and self.run.keeps_decisions:
                self.write_outcome("withheld")
            raise
        beside, heed = self._beside(), self._apply_answer()
        if outcome == "ok":
            event = self._close("completed", output=output)
        else:
            status: ActivityStatus = "cancelled" if outcome == "aborted" else "failed"
            event = self._close(status, error=self._failure(outcome, error), told=output)
        if event is None:
            return None
        self.shown_whole = not isinstance(event, PartialEvent)
        return await self.run.reports.send(event, heed=heed, beside=beside)

    async def _conclude(
        self,
        result: Any,
        outcome: Outcome,
        error: BaseException | None,
        measured: Mapping[str, Any] | None,
        shown: Mapping[str, Any] | None,
    ) -> None:
        """Tell the contracts what became of the work, which ran with `content` as its input."""
        reservation, self.reservation = self.reservation, None
        if reservation is None:
            return
        self._concluded = reservation
        failed = await aconclude(
            reservation,
            result,
            outcome=outcome,
            error=error,
            args=self._arguments(),
            measured=measured,
            shown=shown,
            conceal=self._concealer(),
        )
        if failed is not None:
            raise broken_result(self.run, self.request.event, failed, activity_id=self.request.activity_id)
        if reservation.learnt and not self.run.redactions.is_empty:
            # What was redacted before, the model does not get to see now either.
            self.replace_result(self.run.redactions.value(freeze(result)))

    def replace_result(self, result: Any) -> None:
        """Tell the contracts what is handed on in the place of the result that they were told of."""
        if self._concluded is not None:
            self._concluded.replace_result(result)

    def replace_content(self, content: Any) -> None:
        """Tell the contracts what is handed on in the place of the input that they were told of."""
        if self._concluded is not None:
            self._concluded.replace_arguments(self.request.arguments_of(content))

    async def fail(self, error: BaseException) -> Answer | None:
        """
        Close it because the work failed, or never ran.

        Returns:
            Core's answer to the report; None if there is none, or nobody waits for it.
        """
        beside = self._beside()
        told = whole_error(error) if self.gives(error) else None
        event = self._close(status_of(error), error=self._failure("failed", error), told=told)
        self._abort(error)
        if event is None:
            return None
        if not isinstance(error, Exception):
            # A cancelled task must not wait for Core, and a closed generator cannot.
            self.run.reports.post(event, heed=self._apply_answer())
            return None
        self.shown_whole = not isinstance(event, PartialEvent)
        return await self.run.reports.send(event, heed=self._apply_answer(), beside=beside)

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

    def release(self) -> None:
        """Give back what is reserved for it: another call comes first, and it must not count as a second."""
        if self.reservation is not None:
            self._abort(None)
            self._released = True

    def rest(self) -> None:
        """Give back what the session has reserved for it while it waits; what the fleet has is kept there."""
        reservation, self.reservation = self.reservation, None
        if reservation is not None:
            reservation.lease = None
            reservation.abort()
            self._released = True

    def take_lease(self, lease: Lease) -> bool:
        """Hold again what is reserved for it in the store of the fleet. Returns whether it needs that."""
        if self._released:
            self._lease = lease
            return True
        if self.reservation is None or self.reservation.lease is None:
            return False
        self.reservation.lease = lease
        return True

    def lease_to_reserve(self) -> Lease | None:
        """Give what `take_lease` has taken, for whoever has it judged again."""
        lease, self._lease = self._lease, None
        return lease

    def take_released(self) -> bool:
        """Say whether what was reserved for it was given back; if so, it has to be reserved again."""
        released, self._released = self._released, False
        return released

    def _post(
        self, status: ActivityStatus, *, output: Any = None, error: Mapping[str, Any] | None = None
    ) -> None:
        event = self._close(status, output=output, error=error)
        self._abort(None)
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

    def _abort(self, error: BaseException | None) -> None:
        reservation, self.reservation = self.reservation, None
        if reservation is not None:
            if self.ran:
                nothing = isinstance(error, Exception) and not isinstance(error, TimeoutError)
                measured = sent_only(self.request) if nothing and not self.gave else None
                reservation.abort(error, ran=True, args=self._arguments(), measured=measured)
            else:
                refused = self.decision is not None and self.decision.verdict in (Verdict.BLOCK, Verdict.HALT)
                shown = refused_input(self.run, self.request, self.answer, self.content) if refused else None
                reservation.abort(error, shown=shown)

    def _arguments(self) -> Mapping[str, Any] | None:
        """Give what contracts see of the input that really ran; None when it is what they have judged."""
        content = self.content
        return None if content is self.request.content else self.request.arguments_of(content)

    def _failure(self, outcome: Outcome, error: BaseException | None) -> Mapping[str, Any]:
        """Say to Core what the work failed with."""
        if error is None:
            return error_info(type="UnsuccessfulCall", message=f"the outcome of the call is {outcome!r}")
        return self.run.redactions.value(error_info(error))

    def _beside(self) -> object:
        return None if self.request.envelope is None else (self._enclosing or self.run)

    def _apply_answer(self) -> Callable[[Answer], None]:
        return partial(
            apply_report_answer, self.run, event=self.request.event, activity_id=self.request.activity_id
        )

    def _concealer(self) -> Callable[[Any], Any] | None:
        """Say what becomes of a result in the trace, which outlives the run and goes into evidence."""
        run = self.run
        if self.request.reported and run.services.enforces_outputs:
            # Core redacts outputs when it is told of them, and that is later.
            return lambda result: redaction_marker(freeze(result), run.services.marker_key)
        return None if run.redactions.is_empty else lambda result: run.redactions.value(freeze(result))
