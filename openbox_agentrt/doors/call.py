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
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from openbox_agentrt.acel import ContractViolation
from openbox_agentrt.acel.engine.call.lifecycle import aconclude, conclude
from openbox_agentrt.acel.halts import heed
from openbox_agentrt.doors.arguments import ChangedArgumentsError, UnfitArgumentsError
from openbox_agentrt.doors.deferred import has_yet_to_run, when_it_has_run
from openbox_agentrt.doors.outcome import PlainAnswers, Reading

if TYPE_CHECKING:
    from openbox_agentrt.acel import Reservation, Session, Violation
    from openbox_agentrt.acel.events import Outcome

# Types of results that nobody has to wait for: most are, and asking what they can do takes time.
_AT_ONCE = frozenset({str, int, float, bool, type(None), bytes, dict, list, tuple})


class JudgedWork(Protocol):
    """
    Hold a piece of work that Core judged, while it runs and after it.

    Attributes:
        output: What it gave; after the block, what may be seen of it.
        outcome: What became of it.
        withheld: Whether nothing of the output may be seen; known after the block.
    """

    output: Any
    outcome: Outcome | None
    withheld: bool

    @property
    def input(self) -> list[Any]: ...


class Governance(Protocol):
    """Provide what a door needs of a governance. `OpenBoxAgentRTGovernance` has it."""

    def activity(
        self, activity_type: str, activity_input: Any = ()
    ) -> AbstractAsyncContextManager[JudgedWork]: ...


class _BrokenResultError(Exception):
    """Ends an activity whose result breaks a postcondition, so that it is a failure to Core as well."""


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
            ended = self._begun(result, self._ending(reservation, result))
            if isinstance(result, asyncio.Future):
                # What runs by itself ends whether or not anybody waits for it.
                return result.get_loop().create_task(ended)
            return ended
        if has_yet_to_run(result):
            return when_it_has_run(result, self._ending(reservation, result))
        return self._ended(reservation, result)

    async def arun(self, work: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> Any:
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

    async def _begun(self, waiting: Awaitable[Any], ending: _Ending) -> Any:
        """Await what a call returned, unless its arguments were changed meanwhile."""
        try:
            ending.begin()
        except ChangedArgumentsError:
            if inspect.iscoroutine(waiting):
                waiting.close()
            raise

        async def work(_: Mapping[str, Any]) -> Any:
            return await waiting

        return await self._finish(ending.reservation, work)

    def _begins(self) -> None:
        if self.check is not None:
            self.check()

    async def _finish(
        self, reservation: Reservation, work: Callable[[Mapping[str, Any]], Awaitable[Any]]
    ) -> Any:
        try:
            result = await work(self.args)
        except BaseException as error:
            self._failed(reservation, error)
            raise
        if has_yet_to_run(result):
            return when_it_has_run(result, self._ending(reservation, result))
        return await self._aended(reservation, result)

    async def _judged_by_core(
        self, governance: Governance, work: Callable[[Mapping[str, Any]], Awaitable[Any]]
    ) -> Any:
        from openbox_agentrt.doors import verdicts

        reservation: Reservation | None = None
        if self.session is not None and not verdicts.judges_by(self.session):
            heed(self.session)
            reservation = await self.session.areserve(self.tool, self.args)
            if reservation.refusal is not None:
                verdicts.report_refusal(reservation.refusal)
                return self._refused(reservation)
        return await self._as_activity(governance, work, reservation)

    async def _as_activity(
        self,
        governance: Governance,
        work: Callable[[Mapping[str, Any]], Awaitable[Any]],
        reservation: Reservation | None,
    ) -> Any:
        from openbox_agentrt.doors import verdicts

        begun, broken = False, None
        ran: Mapping[str, Any] | None = None
        try:
            # Committed inside, so that a result that breaks a postcondition is a failure to Core as well.
            async with governance.activity(self.tool, [dict(self.args)]) as activity:
                # A person may have been asked, for as long as that takes.
                if reservation is not None and not await _may_still_run(reservation):
                    raise _RefusedAtStartError
                given = activity.input[0]
                ran = None if given == dict(self.args) else given
                begun = True
                result = await work(self.args if ran is None else ran)
                if has_yet_to_run(result):
                    raise TypeError(f"cannot ask Core about {self.tool!r}: its work begins after it returned")
                answer = self.reading.of_result(result)
                activity.output, activity.outcome = answer.value, answer.outcome
                if reservation is not None:
                    broken = await aconclude(reservation, answer.value, outcome=answer.outcome, args=ran)
                if broken is not None:
                    raise _BrokenResultError
        except _RefusedAtStartError:
            assert reservation is not None
            assert reservation.refusal is not None
            verdicts.report_refusal(reservation.refusal)
            return self._refused(reservation)
        except _BrokenResultError:
            assert broken is not None
            assert reservation is not None
            return self._stopped(broken, reservation)
        except BaseException as error:
            if reservation is not None and not reservation.finished:
                self._failed(reservation, error, begun=begun, args=ran)
            stop = verdicts.stop_of(error, self.tool)
            if stop is None or (stop is error and self.on_stop is None):
                raise
            return self._stopped_by(stop, error)
        if activity.withheld:
            return self._stopped_by(verdicts.withheld(self.tool), None)
        if activity.output is answer.value:
            return result
        if reservation is not None:
            reservation.replace_result(activity.output)
        return self.reading.with_value(result, activity.output)

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
            self.call._begins()
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


async def _may_still_run(reservation: Reservation) -> bool:
    """Have the contracts judge again what has waited, and say that it begins."""
    return await reservation.arecheck() and await reservation.astart()


def told_of(error: Exception) -> dict[str, Any]:
    """
    Give what a model or a client may be told of a call that was stopped: no trace, no state, no secret.

    Raises:
        GovernanceHaltError: The run was halted, which is nothing that a model could act on.
        UngovernedCallError: There is no run.
    """
    if not isinstance(error, ContractViolation):
        from openbox_agentrt.doors.verdicts import stops_the_run, told_of_verdict

        if stops_the_run(error):
            raise error
        return told_of_verdict(error)
    if error.refusal is not None:
        return error.refusal.for_model()
    return {
        "refused": True,
        "tool": error.violation.tool,
        "step": error.violation.step,
        "message": "the result broke a postcondition and is withheld",
    }
