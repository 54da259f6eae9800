"""A call that was judged, and is to be committed or aborted exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .._plain.arguments import plain_args
from .engine.plan.planned_call import NOWHERE, PlannedCall

if TYPE_CHECKING:
    from typing import Any, Protocol, Self, TypedDict, Unpack

    from .engine.plan.tool_plan import Landing, Plan
    from .refusal import Refusal
    from .violations import Violation

    class ToldAtEnd(TypedDict, total=False):
        """What may be told of a call with its end, besides its result, see `Reservation.commit`."""

        args: Mapping[str, Any] | None
        measured: Mapping[str, Any] | None
        shown: Mapping[str, Any] | None
        conceal: Callable[[Any], Any] | None

    class Settles(Protocol):
        """The part of an engine that a reservation ends in."""

        def recheck(self, call: Reservation, /) -> bool: ...

        async def arecheck(self, call: Reservation, /) -> bool: ...

        def settle(self, call: Reservation, result: Any, landing: Landing, /) -> Violation | None: ...

        async def asettle(self, call: Reservation, result: Any, /) -> Violation | None: ...

        def replace_result(self, call: Reservation, result: Any, /) -> None: ...

        def start(self, call: Reservation, /) -> bool: ...

        async def astart(self, call: Reservation, /) -> bool: ...

        def replace_arguments(self, call: Reservation, args: Mapping[str, Any], /) -> None: ...

        def give_up(self, call: Reservation, /, *, ran: bool) -> None: ...

        def lose(self, call: Reservation, /) -> None: ...

        def drop(self, call: Reservation, /, *, ran: bool = True) -> None: ...


class ReservationError(RuntimeError):
    """A reservation was used twice, or was refused, or is another session's. Nothing moved."""


class Reservation(PlannedCall):
    """
    A call in flight. What limits and what excludes counts it already; what allows does not yet.

    It is used once. One that is dropped, because its task died, is settled as an unknown outcome: it
    stays counted for limits and allows nothing.

    Attributes:
        step: Position of the call in the session, counting from 1.
        tool: Name of the tool, in NFC.
        args: The arguments that were judged, in containers of their own.
        allowed: Whether the call may run.
        refusal: Why not, if it may not.
        violations: Every broken contract, those that only watch included.
        faults: What could not be evaluated, though it did not stop the call.
        error: Type of the error that it was aborted with.
        waits: Whether its work begins later: if it is dropped until then, it never ran.
    """

    __slots__ = ("_engine",)

    allowed: bool = True
    refusal: Refusal | None = None
    violations: tuple[Violation, ...] = ()
    faults: tuple[str, ...] = ()
    error: str | None = None
    waits: bool = False

    def __init__(self, engine: Settles, tool: str, args: dict[str, Any], plan: Plan) -> None:
        # As the two above it do: one step for each call, not three.
        self.tool = tool
        self.args = args
        self.step = 0
        self.deferred = ()
        self.memo = None
        self.plan = plan
        self.extra = None
        self.tickets = None
        self.special = False
        self._engine = engine
        # dict.pop is atomic, so of two threads that finish the same call only one does.
        self.under_way = NOWHERE

    @property
    def finished(self) -> bool:
        """Tell whether it was used, or refused."""
        return self.step not in self.under_way

    @property
    def has_to_start(self) -> bool:
        """Tell whether somebody has to be asked before the tool runs: a store of the fleet."""
        return self.lease is not None or self.written is not None

    def start(self) -> bool:
        """
        Say that the tool runs now, as a contract of the fleet has to know. Blocks while its store is asked.

        Returns:
            Whether it may run. It may not where what was reserved was given back meanwhile, because this
            process gave no sign of life, and the call would be refused now: see `refusal`; nor where another
            worker went on with a session that is kept in a store. Always True where neither is about it.
        """
        return self.allowed and (not self.has_to_start or self._engine.start(self))

    async def astart(self) -> bool:
        """Do as `start`, without blocking the event loop."""
        return self.allowed and (not self.has_to_start or await self._engine.astart(self))

    def belongs_to(self, engine: object) -> bool:
        """Tell whether it is a call of that engine."""
        return self._engine is engine

    def recheck(self) -> bool:
        """
        Judge the call again, which has waited since it was let through and is about to run.

        Contracts with `recheck` are asked: unless they say otherwise, those for which time or order matters.
        What has a window counts the call from now on. Whoever lets calls wait for a person asks this after
        the wait, and before `start`. Contracts of the fleet are asked by `arecheck` alone.

        Returns:
            Whether it may still run. If not, it is refused, see `refusal`, and nothing is left to settle.

        Raises:
            ReservationError: It was used before, or was refused.
        """
        if self.finished:
            raise self._used()
        return self._engine.recheck(self)

    async def arecheck(self) -> bool:
        """Do as `recheck`, and ask the store of the fleet as well, which `recheck` does not."""
        if self.finished:
            raise self._used()
        return await self._engine.arecheck(self)

    def commit(self, result: Any = None, **told: Unpack[ToldAtEnd]) -> Violation | None:
        """
        Take note that the call ran and returned `result`.

        Args:
            result: What postconditions and the commit function see.
            args: The arguments that really ran, if they are not those that were judged. They are what the
                trace holds; a prerequisite that they no longer match does not count.
            measured: Values of the fields that were deferred.
            shown: What the trace, and so the evidence, holds in the place of the arguments.
            conceal: Makes of the result what the trace and the evidence hold in its place. Conditions and
                the commit function see the result itself.

        Returns:
            The first postcondition that does not hold, or None. The call has then failed: it allows
            nothing, and its result must not be used. Always None if the session only watches.

        Raises:
            ReservationError: It was used before, or was refused.
        """
        if told and any(each is not None for each in told.values()):
            landing = self._claim_with(told)
        else:
            # As `claim`, and in most calls one step less.
            try:
                landing = self.under_way.pop(self.step)
            except KeyError:
                raise self._used() from None
        return self._engine.settle(self, result, landing)

    async def acommit(self, result: Any = None, **told: Unpack[ToldAtEnd]) -> Violation | None:
        """Do as `commit`, and wait for conditions and a commit function that have to be awaited."""
        if told and any(each is not None for each in told.values()):
            self._claim_with(told)
        else:
            self.claim()
        return await self._engine.asettle(self, result)

    def replace_result(self, result: Any) -> None:
        """
        Take note that whoever made the call was given another result than the one that was committed.

        What contracts remember of results, they remember of this one as well. Does nothing for a call that
        did not succeed.
        """
        self._engine.replace_result(self, result)

    def replace_arguments(self, args: Mapping[str, Any]) -> None:
        """
        Take note that the call is shown with other arguments than it was made with: a redacted prompt.

        What contracts remember of arguments for their words, they remember of these as well.
        """
        self._engine.replace_arguments(self, args)

    def abort(
        self,
        error: BaseException | None = None,
        *,
        ran: bool = False,
        args: Mapping[str, Any] | None = None,
        measured: Mapping[str, Any] | None = None,
        shown: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Take note that the call failed, or never ran.

        Args:
            error: What it failed with.
            ran: Whether it ran. If so it stays counted where it limits, since its effect is unknown.
            args: The arguments that really ran, if they are not those that were judged.
            measured: Values of the fields that were deferred, if any were known.
            shown: What may be seen of the arguments in a log that keeps them until somebody has said so.

        Raises:
            ReservationError: It was used before, or was refused.
        """
        self._claim_with({"args": args, "measured": measured, "shown": shown})
        if error is not None:
            self.error = type(error).__name__
        self._engine.give_up(self, ran=ran)

    def lose(
        self, *, args: Mapping[str, Any] | None = None, measured: Mapping[str, Any] | None = None
    ) -> None:
        """
        Take note that nobody knows how the call ended, and nobody will.

        It stays counted where it limits, also in contracts that refund failures, and allows nothing. What
        `args` and `measured` show to be broken is recorded. A reservation that is dropped is lost as well.

        Raises:
            ReservationError: It was used before, or was refused.
        """
        self._claim_with({"args": args, "measured": measured})
        self._engine.lose(self)

    def forgo(self) -> None:
        """
        Take note that the call never ran. Unlike `abort`, a finalizer may call it at any point.

        Raises:
            ReservationError: It was used before, or was refused.
        """
        self.claim()
        self._engine.drop(self, ran=False)

    def claim(self) -> Landing:
        """Use the reservation up. Whoever does has to settle it."""
        try:
            return self.under_way.pop(self.step)
        except KeyError:
            raise self._used() from None

    def _used(self) -> ReservationError:
        where = f"the reservation of {self.tool!r:.200} at step {self.step}"
        return ReservationError(f"{where} {'is finished' if self.allowed else 'was refused'}")

    def _claim_with(self, told: ToldAtEnd) -> Landing:
        args, shown = told.get("args"), told.get("shown")
        ran = None if args is None else plain_args(args)
        seen = None if shown is None else plain_args(shown)
        # From here on it has to be settled, so nothing that may raise comes after.
        landing = self.claim()
        self.final, self.shown = ran, seen
        self.measured, self.conceal = told.get("measured"), told.get("conceal")
        self.altered = self.special = True
        return landing

    def refuse(self, refusal: Refusal) -> None:
        """Refuse the call, which must not run: there is nothing left to settle."""
        self.under_way.pop(self.step, None)
        self.allowed = False
        self.refusal = refusal

    def __copy__(self) -> Self:
        # It is the call, and there is one: of two, the first to be dropped would end it for the other.
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __del__(self) -> None:
        if self.step in self.under_way:
            # Of what is dropped together, another one's finalizer may run later.
            self.under_way.pop(self.step, None)
            self._engine.drop(self, ran=not self.waits)

    def __repr__(self) -> str:
        state = "refused" if not self.allowed else "finished" if self.finished else "open"
        return f"<{type(self).__name__} {self.tool!r:.200} at step {self.step}, {state}>"
