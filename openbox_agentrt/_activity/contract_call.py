"""
The side of an activity that the local contracts see.

They let it through with a reservation, and are told what became of it: once, whichever way out is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .._plain.freezing import freeze
from .._run.contract_events import broken_result
from ..acel.engine.call.lifecycle import aconclude
from ..decision import Verdict
from ..evidence.redaction.markers import redaction_marker
from .refused_input import refused_input
from .request import sent_only

if TYPE_CHECKING:
    from .._run.state import RunState
    from ..acel.events import Outcome
    from ..acel.reservation import Reservation
    from ..decision import Answer, Decision
    from ..fleet.answers import Lease
    from .request import DecisionRequest


class ContractCall:
    """
    Settle what the contracts have reserved for an activity.

    Attributes:
        run: The run that it belongs to.
        request: What was or will be judged.
        content: The input to use, after redaction.
        answer: Core's answer; None before it, and where Core is not asked.
        decision: The decision; None before it was written.
        ran: Whether the guarded work has begun to run.
        gave: Whether a part of what the work gives may have come; False for a model call before its answer.
        reservation: What the contracts have reserved, as long as they have not been told what became of it.
    """

    run: RunState
    request: DecisionRequest
    content: Any
    answer: Answer | None = None
    decision: Decision | None = None
    ran = False
    gave = True
    reservation: Reservation | None = None
    _concluded: Reservation | None = None
    _released = False
    _lease: Lease | None = None

    async def conclude(
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

    def release(self) -> None:
        """Give back what is reserved for it: another call comes first, and it must not count as a second."""
        if self.reservation is not None:
            self.abort(None)
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

    def abort(self, error: BaseException | None) -> None:
        """Tell the contracts, if they do not know yet, that it failed with `error` or never ran."""
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

    def _concealer(self) -> Callable[[Any], Any] | None:
        """Say what becomes of a result in the trace, which outlives the run and goes into evidence."""
        run = self.run
        if self.request.reported and run.services.enforces_outputs:
            # Core redacts outputs when it is told of them, and that is later.
            return lambda result: redaction_marker(freeze(result), run.services.marker_key)
        return None if run.redactions.is_empty else lambda result: run.redactions.value(freeze(result))
