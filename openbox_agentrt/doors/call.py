"""
One call between a reservation and its end.

The order is the same for every door: reserve, run, then commit what came back or abort. Nothing runs for a
call that is refused, and no lock is held while one runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from openbox_agentrt.acel import ContractViolation

if TYPE_CHECKING:
    from openbox_agentrt.acel import Reservation, Session, Violation

__all__ = ("Activity", "GatedCall", "Governance", "told_of")


def _always(outcome: object) -> bool:
    return True


class Activity(Protocol):
    """A piece of work that Core judged, while it runs."""

    output: Any

    @property
    def input(self) -> list[Any]: ...


class Governance(Protocol):
    """What a door needs of a governance. `OpenBoxAgentRTGovernance` has it."""

    def activity(
        self, activity_type: str, activity_input: Any = ()
    ) -> AbstractAsyncContextManager[Activity]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedCall:
    """
    A call that runs if the contracts of a session admit it, and Core as well where a governance is given.

    Attributes:
        session: Session that judges; None if the governance has contracts of its own.
        tool: Name that the contracts know the tool by.
        args: Arguments that the contracts read.
        governance: Has Core judge the call too, in the run that the caller is in.
        succeeded: Whether a result means that the work was done. One that does not is returned all the same,
            and counts as a failed call: it stays counted for limits and allows nothing.
        may_have_run: Whether an exception of the work leaves it open that something was done. If not, the
            call has not happened.
        on_stop: Takes what stops the call, a `ContractViolation` or a `GovernanceError`; what it returns is
            returned, what it raises is raised. Without it, a violation is raised, or returned if the session
            was made with ``halt_on_violation=False``, and an error of the governance is raised.
    """

    session: Session | None
    tool: str
    args: Mapping[str, Any]
    governance: Governance | None = None
    succeeded: Callable[[Any], bool] = _always
    may_have_run: Callable[[BaseException], bool] = _always
    on_stop: Callable[[Exception], Any] | None = None

    def run(self, work: Callable[[Mapping[str, Any]], Any]) -> Any:
        """
        Do the work if it is admitted.

        Args:
            work: Takes the arguments. It may return an awaitable: what the caller gets is then a
                coroutine, and the call has ended when that has.

        Returns:
            What `work` returned, or what comes of a stop.

        Raises:
            ContractViolation: A contract refused the call and nothing ran, or the result broke a
                postcondition.
            TypeError: `work` returned a generator, whose body has not run yet: it is closed, and nothing
                counts. Or there is a governance, which has to be awaited: nothing ran.
        """
        if self.session is None or self.governance is not None:
            raise TypeError(f"cannot ask Core about {self.tool!r} without waiting: await the call")
        reservation = self.session.reserve(self.tool, self.args)
        if not reservation.allowed:
            return self.refused(reservation)
        try:
            result = work(self.args)
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
        return result if violation is None else self.stopped(violation, reservation)

    async def arun(self, work: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> Any:
        """
        `run` for work that is awaited. A call that is cancelled counts as one that ran and failed.

        Where Core redacts the arguments, `work` gets its copy.

        Raises:
            GovernanceError: Core or a person decided against the call, or the run was halted.
        """
        if self.governance is not None:
            from openbox_agentrt.doors.core_verdict import run_judged_by_core

            return await run_judged_by_core(self, self.governance, work)
        if self.session is None:
            raise TypeError(f"nothing judges {self.tool!r}: a session or a governance is needed")
        reservation = await self.session.areserve(self.tool, self.args)
        if not reservation.allowed:
            return self.refused(reservation)
        return await self._finish(reservation, work(self.args))

    def refused(self, reservation: Reservation) -> Any:
        """What comes of a call that the contracts did not admit."""
        blocking = next(violation for violation in reservation.violations if violation.blocked)
        return self.stopped(blocking, reservation)

    def stopped(self, violation: Violation, reservation: Reservation) -> Any:
        """What comes of a violation that stops the call."""
        blocking = tuple(found for found in reservation.violations if found.blocked)
        error = ContractViolation(violation, violations=blocking, refusal=reservation.refusal)
        if self.on_stop is not None:
            return self.on_stop(error)
        if self.session is not None and self.session.halt_on_violation is False:
            return violation
        raise error

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
        return result if violation is None else self.stopped(violation, reservation)


def told_of(error: Exception) -> dict[str, Any]:
    """What a model or a client may be told of a call that was stopped: no trace, no state, no secret."""
    if not isinstance(error, ContractViolation):
        from openbox_agentrt.doors.core_verdict import told_of_verdict

        return told_of_verdict(error)
    if error.refusal is not None:
        return error.refusal.for_model()
    return {
        "refused": True,
        "tool": error.violation.tool,
        "step": error.violation.step,
        "message": "the result broke a postcondition and is withheld",
    }
