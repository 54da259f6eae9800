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
        early: Whether prerequisites count before the call has run, as with acel-core's `precheck`.
        admitted: Whether the store let it through.
        shown: What the trace holds in the place of the arguments, if they must not be seen there.
        conceal: Makes of the result what the trace and violations hold in its place.
        altered: Whether what the trace holds is not what was judged and returned.
    """

    extra: ArgumentRules | None = None
    tickets: list[Any] | None = None
    early: bool = False
    admitted: bool = True
    shown: dict[str, Any] | None = None
    conceal: Callable[[Any], Any] | None = None
    altered: bool = False

    def __init__(self, tool: str, args: dict[str, Any], plan: Plan) -> None:
        super().__init__(tool, args)
        self.plan = plan
