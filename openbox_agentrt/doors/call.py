"""
The life of one call, once for all doors.

The order is the same everywhere: the contracts reserve, Core is asked where a governance is given, the work
is done, and what became of it is committed or taken back. Nothing runs for a call that is refused, and no
lock is held while one runs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openbox_agentrt.acel import ContractViolation
from openbox_agentrt.acel.engine.call.lifecycle import aconclude, conclude
from openbox_agentrt.acel.halts import heed
from openbox_agentrt.doors.arguments import ChangedArgumentsError, UnfitArgumentsError
from openbox_agentrt.doors.deferred import has_yet_to_run, when_it_has_run
from openbox_agentrt.doors.judged_work import Governance, JudgedWork
from openbox_agentrt.doors.outcome import CallEnd, PlainAnswers, Reading

if TYPE_CHECKING:
    from openbox_agentrt.acel import Reservation, Session, Violation
    from openbox_agentrt.acel.events import Outcome

AsyncWork = Callable[[Mapping[str, Any]], Awaitable[Any]]

# Types of results that nobody has to wait for: most are, and asking what they can do takes time.
_AT_ONCE = frozenset({str, int, float, bool, type(None), bytes, dict, list, tuple})


class _BrokenResultError(Exception):
    """Ends an activity whose result breaks a postcondition, so that it is a failure to Core as well."""

    def __init__(self, broken: Violation) -> None:
        super().__init__()  # Core is told no more than that it is one
        self.broken = broken


class _RefusedAtStartError(Exception):
    """Ends an activity that has waited for Core or a person, and is refused now that it would run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernedCall:
    """
    Run a call if the contracts of a session admit it, and Core as well where a governance is given.

    Attributes:
        session: Session that judges; None if the governance has contracts of its own.
        tool: Name that the contracts know the tool by.
        args: Arguments that the contracts read.
        governance: Has Core judge the call too, in the run that the caller is in.
        reading: Reads what became of the work. A call that did not do its work is returned all the same, and
            stays counted for limits and allows nothing.
        on_stop: Takes what stops the call, a `ContractViolation` or a `GovernanceError`; what it returns is
            returned, what it raises is raised. Without it, a violation is raised, or returned if the session
            was made with ``halt_on_violation=False``, and an error of the governance is raised.
        check: Raises `ChangedArgumentsError` if what was passed is not what was judged any more. It is asked
            where the work begins later than the call.
    """

    session: Session | None
    tool: str
    args: Mapping[str, Any]
    governance: Governance | None = None
    reading: Reading = field(default_factory=PlainAnswers)
    on_stop: Callable[[Exception], Any] | None = None
    check: Callable[[], None] | None = None

    def run(self, work: Callable[[Mapping[str, Any]], Any]) -> Any:
        """
        Do the work if it is admitted.

        Args:
            work: Takes the arguments. What it returns may still have to run: an awaitable, a generator, a
                context manager made of one, a future. The caller then gets one of the same kind, and the call
                ends when that has.

        Returns:
            What `work` returned, or what comes of a stop.

        Raises:
            ContractViolation: A contract refused the call and nothing ran, or the result broke a
                postcondition.
            TypeError: There is a governance, which has to be awaited: nothing ran.
        """
        if self.session is None or self.governance is not None:
            raise TypeError(f"cannot ask Core about {self.tool!r} without waiting: await the call")
        heed(self.session)
        reservation = self.session.reserve(self.tool, self.args, started=True)
        if not reservation.allowed:
            return self._refused(reservation)
        try:
            result = work(self.args)
        except BaseException as error:
            self._failed(reservation, error)
            raise
        if type(result) in _AT_ONCE:
            return self._ended(reservation, result)
        if inspect.isawaitable(result):
            return self._awaitable(reservation, result)
        if has_yet_to_run(result):
            return when_it_has_run(result, self._ending(reservation, result))
        return self._ended(reservation, result)

    async def arun(self, work: AsyncWork) -> Any:
        """
        Do work that is awaited, as `run` does. A call that is cancelled counts as one that ran and failed.

        Where Core redacts the arguments, `work` gets its copy.

        Raises:
            GovernanceError: Core or a person decided against the call, or the run was halted.
            TypeError: There is neither a session nor a governance.
        """
        if self.governance is not None:
            return await self._judged_by_core(self.governance, work)
        if self.session is None:
            raise TypeError(f"nothing judges {self.tool!r}: a session or a governance is needed")
        heed(self.session)
        reservation = await self.session.areserve(self.tool, self.args, started=True)
        if not reservation.allowed:
            return self._refused(reservation)
        return await self._finish(reservation, work)

    def _ending(self, reservation: Reservation, result: Any) -> _Ending:
        # A future runs by itself.
        reservation.waits = not isinstance(result, asyncio.Future | concurrent.futures.Future)
        return _Ending(self, reservation)

    def _awaitable(self, reservation: Reservation, result: Awaitable[Any]) -> Awaitable[Any]:
        ended = self._wait(result, self._ending(reservation, result))
        # What runs by itself ends whether or not anybody waits for it.
        return result.get_loop().create_task(ended) if isinstance(result, asyncio.Future) else ended

    async def _wait(self, waiting: Awaitable[Any], ending: _Ending) -> Any:
        """Await what a call returned, unless its arguments were changed meanwhile."""
        try:
            ending.begin()
        except ChangedArgumentsError:
            if inspect.iscoroutine(waiting):
                waiting.close()
            raise
        return await self._finish(ending.reservation, lambda _: waiting)

    async def _finish(self, reservation: Reservation, work: AsyncWork) -> Any:
        try:
            result = await work(self.args)
        except BaseException as error:
            self._failed(reservation, error)
            raise
        if has_yet_to_run(result):
            return when_it_has_run(result, self._ending(reservation, result))
        return await self._aended(reservation, result)

    async def _judged_by_core(self, governance: Governance, work: AsyncWork) -> Any:
        from openbox_agentrt.doors import verdicts

        reservation: Reservation | None = None
        if self.session is not None and not verdicts.judges_by(self.session):
            heed(self.session)
            reservation = await self.session.areserve(self.tool, self.args)
            if not reservation.allowed:
                return self._refused(reservation)
        return await _CallInActivity(self, reservation).run(governance, work)

    def _stopped_by(self, stop: Exception, cause: BaseException | None) -> Any:
        if self.on_stop is not None:
            return self.on_stop(stop)
        raise stop from cause

    def _ended(self, reservation: Reservation, result: Any) -> Any:
        answer = self.reading.of_result(result)
        broken = conclude(reservation, answer.value, outcome=answer.outcome)
        return result if broken is None else self._stopped(broken, reservation)

    async def _aended(self, reservation: Reservation, result: Any) -> Any:
        answer = self.reading.of_result(result)
        broken = await aconclude(reservation, answer.value, outcome=answer.outcome)
        return result if broken is None else self._stopped(broken, reservation)

    def _failed(
        self,
        reservation: Reservation,
        error: BaseException,
        *,
        begun: bool = True,
        args: Mapping[str, Any] | None = None,
    ) -> None:
        never_ran = not begun or isinstance(error, ChangedArgumentsError | UnfitArgumentsError)
        outcome: Outcome = "aborted" if never_ran else self.reading.of_error(error)
        conclude(reservation, outcome=outcome, error=error, args=args)

    def _refused(self, reservation: Reservation) -> Any:
        if self.governance is not None and reservation.refusal is not None:
            from openbox_agentrt.doors import verdicts

            verdicts.report_refusal(reservation.refusal)
        blocking = next(violation for violation in reservation.violations if violation.blocked)
        return self._stopped(blocking, reservation)

    def _stopped(self, violation: Violation, reservation: Reservation) -> Any:
        blocking = tuple(found for found in reservation.violations if found.blocked)
        error = ContractViolation(violation, violations=blocking, refusal=reservation.refusal)
        if self.on_stop is not None:
            return self.on_stop(error)
        if self.session is not None and self.session.halt_on_violation is False:
            return violation
        raise error


@dataclass(slots=True, eq=False)
class _CallInActivity:
    """
    Run a call inside an activity of a governance.

    What the contracts of the session have reserved for it is ended inside too, so that a result that breaks a
    postcondition is a failure to Core as well.

    Attributes:
        ran_with: What Core has put in the place of the arguments, if anything.
        begun: Whether the work has begun.
    """

    call: GovernedCall
    reservation: Reservation | None
    ran_with: Mapping[str, Any] | None = None
    begun: bool = False

    async def run(self, governance: Governance, work: AsyncWork) -> Any:
        from openbox_agentrt.doors import verdicts

        call, reservation = self.call, self.reservation
        try:
            async with governance.activity(call.tool, [dict(call.args)]) as activity:
                result, end = await self._do(work, activity)
        except _RefusedAtStartError:
            assert reservation is not None
            return call._refused(reservation)
        except _BrokenResultError as error:
            assert reservation is not None
            return call._stopped(error.broken, reservation)
        except BaseException as error:
            if reservation is not None and not reservation.finished:
                call._failed(reservation, error, begun=self.begun, args=self.ran_with)
            stop = verdicts.stop_of(error, call.tool)
            if stop is None or (stop is error and call.on_stop is None):
                raise
            return call._stopped_by(stop, error)
        if activity.withheld:
            return call._stopped_by(verdicts.withheld(call.tool), None)
        if activity.output is end.value:
            return result
        if reservation is not None:
            reservation.replace_result(activity.output)
        return call.reading.with_value(result, activity.output)

    async def _do(self, work: AsyncWork, activity: JudgedWork) -> tuple[Any, CallEnd]:
        call, reservation = self.call, self.reservation
        # It has waited: a person may have been asked, for as long as that takes.
        if reservation is not None and not (await reservation.arecheck() and await reservation.astart()):
            raise _RefusedAtStartError
        given = activity.input[0]
        if given != dict(call.args):
            self.ran_with = given
        self.begun = True
        result = await work(call.args if self.ran_with is None else self.ran_with)
        if has_yet_to_run(result):
            raise TypeError(f"cannot ask Core about {call.tool!r}: its work begins after it returned")
        end = call.reading.of_result(result)
        activity.output, activity.outcome = end.value, end.outcome
        if reservation is not None:
            broken = await aconclude(reservation, end.value, outcome=end.outcome, args=self.ran_with)
            if broken is not None:
                raise _BrokenResultError(broken)
        return result, end


@dataclass(slots=True, eq=False)
class _Ending:
    """End a call whose work was still to run when it returned; once, whoever is first."""

    call: GovernedCall
    reservation: Reservation
    began: bool = False
    ended: bool = False

    def begin(self) -> None:
        if self.began:
            return
        try:
            if self.call.check is not None:
                self.call.check()
        except BaseException:
            self.dropped()
            raise
        self.began = True
        self.reservation.waits = False

    def done(self, result: Any) -> Any:
        self.ended = True
        return self.call._ended(self.reservation, result)

    async def adone(self, result: Any) -> Any:
        self.ended = True
        return await self.call._aended(self.reservation, result)

    def failed(self, error: BaseException) -> None:
        if not self.ended:
            self.ended = True
            self.call._failed(self.reservation, error)

    def dropped(self) -> None:
        # What began and was dropped is settled by its reservation: nobody saw it end.
        if not self.began and not self.ended:
            self.ended = True
            if not self.reservation.finished:
                # Not by `abort`: whoever drops something may be in the middle of anything.
                self.reservation.forgo()
