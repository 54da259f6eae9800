"""
One call between a reservation and its end.

The order is the same for every door: reserve, run, then commit what came back or abort. Nothing runs for a
call that is refused, and no lock is held while one runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any

from openbox_agentrt.acel import ContractViolation

if TYPE_CHECKING:
    from openbox_agentrt.acel import Reservation, Session, Violation

__all__ = ("GatedCall", "told_of")


def _always(outcome: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedCall:
    """
    A call that runs if the contracts of a session admit it.

    Attributes:
        session: Session that judges.
        tool: Name that the contracts know the tool by.
        args: Arguments that the contracts read.
        succeeded: Whether a result means that the work was done. One that does not is returned all the same,
            and counts as a failed call: it stays counted for limits and allows nothing.
        may_have_run: Whether an exception of the work leaves it open that something was done. If not, the
            call has not happened.
        on_stop: Takes the violation that stops the call; what it returns is returned, what it raises is
            raised. Without it, the violation is raised, or returned if the session was made with
            ``halt_on_violation=False``.
    """

    session: Session
    tool: str
    args: Mapping[str, Any]
    succeeded: Callable[[Any], bool] = _always
    may_have_run: Callable[[BaseException], bool] = _always
    on_stop: Callable[[ContractViolation], Any] | None = None

    def run(self, work: Callable[[], Any]) -> Any:
        """
        Do the work if it is admitted.

        Args:
            work: May return an awaitable. What the caller gets is then a coroutine, and the call has ended
                when that has.

        Returns:
            What `work` returned, or what comes of a stop.

        Raises:
            ContractViolation: A contract refused the call and nothing ran, or the result broke a
                postcondition.
            TypeError: `work` returned a generator, whose body has not run yet. It is closed, and nothing
                counts.
        """
        reservation = self.session.reserve(self.tool, self.args)
        if not reservation.allowed:
            return self._refused(reservation)
        try:
            result = work()
        except BaseException as error:
            reservation.abort(error, ran=self.may_have_run(error))
            raise
        if isinstance(result, GeneratorType | AsyncGeneratorType):
            reservation.abort(ran=False)
            raise TypeError(f"cannot govern {self.tool!r}: a generator runs after its call has returned")
        if inspect.isawaitable(result):
            return self._finish(reservation, result)
        if not self.succeeded(result):
            reservation.abort(ran=True)
            return result
        violation = reservation.commit(result)
        return result if violation is None else self._stop(violation, reservation)

    async def arun(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """`run` for work that is awaited. A call that is cancelled counts as one that ran and failed."""
        reservation = await self.session.areserve(self.tool, self.args)
        if not reservation.allowed:
            return self._refused(reservation)
        return await self._finish(reservation, work())

    async def _finish(self, reservation: Reservation, work: Awaitable[Any]) -> Any:
        try:
            result = await work
        except BaseException as error:
            # CancelledError too: how far the work came is not known.
            reservation.abort(error, ran=self.may_have_run(error))
            raise
        if not self.succeeded(result):
            reservation.abort(ran=True)
            return result
        violation = await reservation.acommit(result)
        return result if violation is None else self._stop(violation, reservation)

    def _refused(self, reservation: Reservation) -> Any:
        blocking = next(violation for violation in reservation.violations if violation.blocked)
        return self._stop(blocking, reservation)

    def _stop(self, violation: Violation, reservation: Reservation) -> Any:
        blocking = tuple(found for found in reservation.violations if found.blocked)
        stopped = ContractViolation(violation, violations=blocking, refusal=reservation.refusal)
        if self.on_stop is not None:
            return self.on_stop(stopped)
        if self.session.halt_on_violation is False:
            return violation
        raise stopped


def told_of(error: ContractViolation) -> dict[str, Any]:
    """What a model or a client may be told of a call that was stopped: no trace, no state, no secret."""
    if error.refusal is not None:
        return error.refusal.for_model()
    return {
        "refused": True,
        "tool": error.violation.tool,
        "step": error.violation.step,
        "message": "the result broke a postcondition and is withheld",
    }
