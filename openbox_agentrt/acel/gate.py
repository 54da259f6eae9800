"""The first half of a call in acel-core's way: `Session.precheck` gives it, `Session.postcheck` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .engine.plan.planned_call import NOWHERE
from .reservation import Reservation

if TYPE_CHECKING:
    from .violations import Violation


class Gate(Reservation):
    """
    Tell of a reservation what programs of acel-core ask: what it breaks, and whether that stops it.

    Attributes:
        step: Position of the call in the session, counting from 1.
        args: The arguments that were judged.
        allowed: Whether the call may run.

    Raises:
        TypeError: Somebody makes one. Only `Session.precheck` gives it: one that nobody judged would allow.
    """

    __slots__ = ()

    early = True

    def __init__(self, *given: object, **named: object) -> None:
        # What is dropped at once looks at these.
        self.step, self.under_way = 0, NOWHERE
        raise TypeError("a gate is what Session.precheck gives of a call, and is not made otherwise")

    @property
    def violation(self) -> Violation | None:
        """Give the first contract that the call breaks, whether it is stopped or only watched."""
        return next((found for found in self.violations if found.blocked or self.allowed), None)

    @property
    def blocking(self) -> bool:
        """Tell whether the call must not run."""
        return not self.allowed


class PrecheckedGate(Gate):
    """Make a gate of a call that is judged: for the engine alone."""

    __slots__ = ()

    __init__ = Reservation.__init__
