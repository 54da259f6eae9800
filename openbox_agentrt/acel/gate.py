"""The first half of a call in acel-core's way: `Session.precheck` gives it, `Session.postcheck` takes it."""

from __future__ import annotations

from typing import Any

from .._values import dataclass, field
from .reservation import Reservation
from .violations import Violation


@dataclass(slots=True)
class Gate:
    """
    Hold the first half of a call. It is to be read only: that Python refused writing would double its cost.

    Attributes:
        step: Position of the call in the session, counting from 1.
        args: The arguments that were judged.
        violation: The first contract that the call breaks, whether it is stopped or only watched.
        blocking: Whether the call must not run.
    """

    step: int
    args: dict[str, Any]
    violation: Violation | None
    blocking: bool = False
    reservation: Reservation | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def allowed(self) -> bool:
        """Tell whether the call may run."""
        return not self.blocking
