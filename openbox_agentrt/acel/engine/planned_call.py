"""A call on its way through a store, with the plan of what has to be done for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..memory.call import JudgedCall
from .plan import ArgumentRules, Plan


class PlannedCall(JudgedCall):
    """
    A call that a store judges, reserves and settles by a plan.

    Attributes:
        plan: What has to be done for calls of its tool.
        extra: What the contracts that look at arguments say about this one.
        tickets: What cells need to settle it.
        special: Whether it is deferred or early, or other arguments ran than were judged.
        early: Whether prerequisites count before the call has run, as with acel-core's `precheck`.
        admitted: Whether the store let it through.
        watched: Whether it was let through in any case.
        ran: The call with the arguments that really ran, if they are not those that were judged.
        shown: What the trace holds in the place of the arguments, if they must not be seen there.
        conceal: Makes of the result what the trace and violations hold in its place.
        altered: Whether what the trace holds is not what was judged and returned.
    """

    __slots__ = ("early", "extra", "plan", "special", "tickets")

    admitted: bool = True
    watched: bool = False
    ran: PlannedCall | None = None
    shown: dict[str, Any] | None = None
    conceal: Callable[[Any], Any] | None = None
    altered: bool = False

    def __init__(self, tool: str, args: dict[str, Any], plan: Plan) -> None:
        super().__init__(tool, args)
        self.plan = plan
        self.extra: ArgumentRules | None = None
        self.tickets: list[Any] | None = None
        self.special = False
        self.early = False

    def as_ran(self) -> PlannedCall | None:
        """Ask what contracts say about the arguments that really ran; None if those were judged."""
        if self.final is not None and self.ran is None:
            ran = PlannedCall(self.tool, self.final, self.plan)
            ran.step, ran.deferred, ran.measured = self.step, self.deferred, self.measured
            if self.plan.asked:
                ran.extra = self.plan.ask(self.final)
            self.ran = ran
        return self.ran
