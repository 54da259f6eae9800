"""A call that was judged, and is to be committed or aborted exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .refusal import Refusal
    from .session import Session
    from .violations import Violation


class ReservationError(RuntimeError):
    """A reservation was used twice, was refused, or belongs to another session. Nothing moved."""


class Reservation:
    """
    A call in flight. What limits and what excludes counts it already; what allows does not yet.

    One that is dropped without `commit` or `abort` is settled as an unknown outcome: it stays counted
    for limits and allows nothing.

    Attributes:
        step: Position of the call in the session, counting from 1.
        tool: Name of the tool, in NFC.
        args: The arguments that were judged.
        allowed: Whether the call may run.
        refusal: Why not, if it may not.
        violations: Every broken contract, those that only watch included.
    """

    allowed: bool = True
    refusal: Refusal | None = None
    violations: tuple[Violation, ...] = ()

    def __init__(self, session: Session, step: int, tool: str, args: dict[str, Any]) -> None:
        self.session = session
        self.step = step
        self.tool = tool
        self.args = args
        self._open = True

    def commit(
        self,
        result: Any = None,
        *,
        args: Mapping[str, Any] | None = None,
        measured: Mapping[str, Any] | None = None,
    ) -> Violation | None:
        """The call ran and returned `result`. Returns a postcondition that failed."""
        self._close()
        return self.session._commit(self, result, args, measured)

    def abort(self, error: BaseException | None = None, *, ran: bool = False) -> None:
        """The call failed (`ran`) or never ran."""
        self._close()

    def _close(self) -> None:
        if not self._open:
            raise ReservationError(
                f"the reservation of {self.tool!r} at step {self.step} is finished or was refused"
            )
        self._open = False
