"""
The calls of a session.

There are three ways in, over one engine:

* `reserve`, then `commit` or `abort`: for whoever runs the call themselves.
* `call` and `acall`: judge, run and commit in one.
* `precheck` and `postcheck`: acel-core's two halves, where a prerequisite counts from the first.

No lock is held while a tool, a predicate or a commit function runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..callbacks import is_awaitable
from ..engine.call.lifecycle import aconclude, conclude, running
from ..engine.engine import Engine
from ..gate import Gate, PrecheckedGate
from ..match.keys import About
from ..refusal import Refusal
from ..reservation import Reservation, ReservationError
from ..violations import ContractViolation, Violation

if TYPE_CHECKING:
    from ...fleet.answers import Lease


_Deferred: TypeAlias = Collection[str] | Mapping[str, Any]


class SessionCalls:
    """Judge calls by the contracts of a session, and run them."""

    __slots__ = ()

    halt_on_violation: bool | Literal["session"]
    _engine: Engine

    @property
    def in_flight(self) -> int:
        """Count the calls that are let through and not settled."""
        return self._engine.store.settle()

    def reserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        # By position as well, which nobody needs: Python enters functions slowly that forbid it.
        deferred: _Deferred = (),
        started: bool = False,
        about: About | None = None,
    ) -> Reservation:
        """
        Judge a call, and let it through if every contract in force agrees.

        A refused call moves nothing. It is not an exception: look at `allowed`.

        Args:
            tool: Name of the tool.
            args: Its arguments.
            deferred: Arguments whose values are known only once the call has run, such as
                ``total_tokens``. Give them to `commit` as `measured`. Until then they count as nothing, and a
                limit on them refuses only once it is reached. A mapping says what each is taken for until
                then, so that calls side by side cannot pass the limit together.
            started: Whether the tool runs as soon as the call is let through. If not, and a contract of the
                fleet is about it, `Reservation.start` goes before.
            about: Whose call it is, if not whose the session is.

        Raises:
            ValueError: What a deferred amount is taken for is no amount.
        """
        return self._engine.reserve(tool, args, started, about, deferred)

    async def areserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        deferred: _Deferred = (),
        started: bool = False,
        about: About | None = None,
        lease: Lease | None = None,
    ) -> Reservation:
        """
        Do as `reserve`, and wait for preconditions and for the store of the fleet without blocking.

        Args:
            tool: Name of the tool.
            args: Its arguments.
            deferred: See `reserve`.
            started: See `reserve`.
            about: See `reserve`.
            lease: What is reserved for the call in that store already, by a process that had it before. It
                stands in for asking, if it is about the same things, which `Reservation.lease` tells. Else it
                is given back, if the contracts of the session let the call through.
        """
        return await self._engine.areserve(
            tool, args, deferred=deferred, started=started, about=about, lease=lease
        )

    def would(self, tool: str, args: Mapping[str, Any] | None = None) -> Refusal | None:
        """
        Tell what `reserve` would refuse a call for if it were made now.

        The call is not made: no step is counted, nothing is reserved or recorded, and no metric moves. A
        call made later may be refused all the same, since others may have come between. Contracts of the
        fleet ask their store, and a durable session is taken: it blocks the thread for that, as `reserve`
        does.

        Args:
            tool: Name of the tool.
            args: Its arguments.

        Returns:
            The refusal; None for a call that would be let through, as all are in shadow mode.
        """
        return self._engine.would(tool, args)

    def call(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        result: Any = None,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """
        Judge a call, run it, and commit its result.

        Args:
            tool: Name of the tool.
            args: Its arguments.
            result: What it returned, if there is nothing to run.
            run: Called with the arguments by keyword if the call is let through.

        Returns:
            The tool's result; or the violation, if the session does not halt on violations.

        Raises:
            ContractViolation: A contract in force was broken. Unless it is a postcondition, the tool did
                not run.
        """
        reservation = self._engine.reserve(tool, args, True)
        if not reservation.allowed:
            return self._refused(reservation)
        if run is not None:
            with running(reservation):
                result = run(**(args or {}))
        failed = conclude(reservation, result)
        return result if failed is None else self._failed(failed)

    async def acall(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        result: Any = None,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """Do as `call`; `run`, conditions and the commit function may be async."""
        reservation = await self._engine.areserve(tool, args, started=True)
        if not reservation.allowed:
            return self._refused(reservation)
        if run is not None:
            with running(reservation):
                result = run(**(args or {}))
                if is_awaitable(result):
                    result = await result
        failed = await aconclude(reservation, result)
        return result if failed is None else self._failed(failed)

    def precheck(self, tool: str, args: Mapping[str, Any] | None = None) -> Gate:
        """
        Judge a call that is run elsewhere. Never raises.

        As in acel-core, a call that is let through counts as a prerequisite at once; `postcheck` takes it
        back if the call failed.
        """
        gate = self._engine.reserve(tool, args, True, kind=PrecheckedGate)
        assert isinstance(gate, Gate)
        return gate

    def postcheck(self, tool: str, gate: Gate, result: Any) -> Violation | None:
        """
        Commit the result of a call that `precheck` let through.

        Returns:
            A postcondition that does not hold; the result must then not be used. None in shadow mode.

        Raises:
            ReservationError: The gate was used before, was blocked, or is not this session's.
        """
        if not gate.belongs_to(self._engine):
            raise ReservationError(f"the gate of {tool!r:.200} is not one of this session")
        return gate.commit(result)

    def _refused(self, reservation: Reservation) -> Violation:
        violations = tuple(violation for violation in reservation.violations if violation.blocked)
        if self.halt_on_violation is False:
            return violations[0]
        raise ContractViolation(violations[0], violations=violations, refusal=reservation.refusal)

    def _failed(self, violation: Violation) -> Violation:
        if self.halt_on_violation is False:
            return violation
        raise ContractViolation(violation)


def halt_again(session: SessionCalls) -> None:
    """
    Let a session admit nothing more, because one of its contracts has halted it in another process.

    Args:
        session: The session.
    """
    session._engine.store.halt_again()
