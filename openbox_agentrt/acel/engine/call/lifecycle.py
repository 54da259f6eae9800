"""
The life of a call that was let through: it runs, and then it is committed or aborted.

    reservation = session.reserve("pay", {"amount": 5})
    if reservation.allowed:
        with running(reservation):
            result = pay(amount=5)
        conclude(reservation, result)

Whoever runs calls, a door or a loop, ends them here.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from ...events import Outcome
    from ...reservation import Reservation, ToldAtEnd
    from ...violations import Violation


class running:
    """
    Run a call inside a ``with`` block. If the block raises, the call is aborted and the error goes on.

    The block may await: a cancellation is an error like any other. One that ends without an error is still
    to be concluded.

    Args:
        reservation: The call, which was let through. It stays counted where it limits.
    """

    __slots__ = ("_reservation",)

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation

    def __enter__(self) -> None:
        """Take note of nothing yet: a call that was reserved is under way."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None:
            self._reservation.abort(error, ran=True)


def conclude(
    reservation: Reservation,
    result: Any = None,
    *,
    outcome: Outcome = "ok",
    error: BaseException | None = None,
    **told: Unpack[ToldAtEnd],
) -> Violation | None:
    """
    End a call as its outcome says.

    Args:
        reservation: The call.
        result: What it returned.
        outcome: "ok" commits it. "failed" and "unknown" leave it counted where it limits, and let it allow
            nothing; of the two only "failed" is taken back by contracts that refund failures. "aborted" takes
            it back: it never ran.
        error: What it failed with.
        told: What else is known of it, see `Reservation.commit`.

    Returns:
        The first postcondition that the result breaks; it must then not be used.

    Raises:
        ReservationError: The call was ended before, or was refused.
    """
    if outcome == "ok":
        return reservation.commit(result, **told)
    _end(reservation, outcome, error, told)
    return None


async def aconclude(
    reservation: Reservation,
    result: Any = None,
    *,
    outcome: Outcome = "ok",
    error: BaseException | None = None,
    **told: Unpack[ToldAtEnd],
) -> Violation | None:
    """End a call as `conclude` does, and wait for conditions that have to be awaited."""
    if outcome == "ok":
        return await reservation.acommit(result, **told)
    _end(reservation, outcome, error, told)
    return None


def _end(reservation: Reservation, outcome: Outcome, error: BaseException | None, told: ToldAtEnd) -> None:
    args, measured = told.get("args"), told.get("measured")
    if outcome == "unknown":
        reservation.lose(args=args, measured=measured)
    else:
        reservation.abort(error, ran=outcome == "failed", args=args, measured=measured)
