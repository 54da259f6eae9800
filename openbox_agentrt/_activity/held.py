"""What the contracts hold for one activity: its reservation, until it is settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .._plain.freezing import freeze
from .._run.contract_events import broken_result
from ..evidence.redaction import redaction_marker
from .record import Docket

if TYPE_CHECKING:
    from .._run.contracts import Reservation
    from .._run.state import RunState
    from .request import Case


class Held:
    """
    The reservation of an activity, settled once; nothing happens where there is none.

    Args:
        hears_of_output: Whether Core is told what the activity gave, and may redact that afterwards.
    """

    __slots__ = ("_hears_of_output", "_released", "_reservation", "_run")

    def __init__(self, run: RunState, *, hears_of_output: bool) -> None:
        self._run = run
        self._hears_of_output = hears_of_output
        self._reservation: Reservation | None = None
        self._released = False

    def __bool__(self) -> bool:
        """Whether there is something to settle."""
        return self._reservation is not None

    def accept(self, reservation: Reservation | None) -> None:
        """Hold `reservation` from now on."""
        self._reservation = reservation

    def release(self) -> None:
        """Another call comes first: what is reserved must not count as a second one."""
        if self._reservation is not None:
            self.abort(None)
            self._released = True

    async def reclaim(self, case: Case) -> None:
        """
        Have the contracts judge what was released: it is its turn now.

        Raises:
            ContractRefusedError: They refuse it by now.
        """
        if self._released:
            self._released = False
            self._reservation = await self._run.judge.reserve(Docket(self._run, case))

    async def commit(self, case: Case, content: Any, result: Any, measured: Mapping[str, Any] | None) -> None:
        """
        The work ran, with `content` as its input.

        Raises:
            ContractRefusedError: The result breaks a postcondition.
        """
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return
        failed = await reservation.acommit(
            result, args=case.arguments_of(content), measured=measured, conceal=self._concealer()
        )
        if failed is not None:
            raise broken_result(self._run, case, failed)

    def abort(self, error: BaseException | None, *, ran: bool = False) -> None:
        """The work failed, or never ran."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.abort(error, ran=ran)

    def _concealer(self) -> Callable[[Any], Any] | None:
        """What becomes of a result in the trace, which outlives the run and goes into evidence."""
        run = self._run
        if self._hears_of_output and run.judge.options.redact_outputs:
            # Core redacts outputs when it is told of them, and that is later.
            return lambda result: redaction_marker(freeze(result), run.judge.marker_key)
        return (lambda result: run.redactions.value(freeze(result))) if run.redactions else None
