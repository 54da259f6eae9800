"""A call on its way through a store, with the plan of what has to be done for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...._plain.arguments import plain_args
from ...callbacks import fault_text
from ...contracts.base import SessionRule
from ...memory.call import JudgedCall
from ...memory.cell import Mover
from .tool_plan import ArgumentRules, Landing, Plan

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ....fleet.answers import Lease, Reserved

NOWHERE: dict[int, Landing] = {}
"""Where a call is under way that was not let through. Nothing is ever put into it."""


class PlannedCall(JudgedCall):
    """
    A call that a store judges, reserves and settles by a plan.

    Attributes:
        plan: What has to be done for calls of its tool.
        extra: What the contracts that look at arguments say about this one.
        tickets: What cells need to settle it.
        under_way: The calls that it is one of once it was let through, until somebody settles it.
        special: Whether its end is more than to tell what it moved: something is measured, ran otherwise than
            it was judged, must not be seen, or is known to a store.
        early: Whether prerequisites count before the call has run, as with acel-core's `precheck`.
        admitted: Whether the store let it through.
        watched: Whether it was let through in any case.
        concealed: Whether what was learnt from the result must not be seen.
        ran: The call with the arguments that really ran, if they are not those that were judged.
        shown: What the trace holds in the place of the arguments, if they must not be seen there.
        conceal: Makes of the result what the trace and violations hold in its place.
        altered: Whether what the trace holds is not what was judged and returned.
        question: What it asked of the store of the fleet, if anything.
        lease: What is reserved for it there.
        answer: What that store answered last: an answer, the lease that stood in for asking, or why there is
            none. None if it was not asked, or once the answer was taken note of.
        unanswered: Whether that store gave no answer.
        alone: Whether it counts in this process only, since the store that keeps the session gave no answer.
        written: Says whether what it has changed is kept, where the memory of the session is.
    """

    __slots__ = ("extra", "plan", "special", "tickets", "under_way")

    early: bool = False
    admitted: bool = True
    watched: bool = False
    concealed: bool = False
    ran: PlannedCall | None = None
    shown: dict[str, Any] | None = None
    conceal: Callable[[Any], Any] | None = None
    altered: bool = False
    question: Any = None
    lease: Lease | None = None
    answer: Reserved | Lease | str | None = None
    unanswered: bool = False
    alone: bool = False
    written: Future[bool] | None = None

    def __init__(self, tool: str, args: dict[str, Any], plan: Plan) -> None:
        super().__init__(tool, args)
        self.plan = plan
        self.extra: ArgumentRules | None = None
        self.tickets: list[Any] | None = None
        self.special = False
        self.under_way: dict[int, Landing] = NOWHERE

    def movers(self) -> Sequence[Mover]:
        """List what the call moves, besides the tallies of its plan."""
        return self.plan.movers if self.extra is None else self.extra.moves

    def learn(self, given: Any, known: Mapping[str, Any] | None = None) -> None:
        """
        Read out of the call, which succeeded, what memory is to learn from it. Raises nothing.

        Args:
            given: What it returned.
            known: What was learnt from its result before, by whoever follows a journal; the result is then
                not read.
        """
        self.learnt = self.lessons(given, known)
        if self.ran is not None:
            self.ran.learnt = self.learnt

    def lessons(self, given: Any, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Give what `learn` would note, by the names of the memory that it is for."""
        from ...match.results import Result

        ran = self.as_ran() or self
        result = Result(given)
        learnt = {} if known is None else dict(known)
        for mover in ran.movers():
            name = mover.learns
            if name is None or name in learnt or (known is not None and mover.learns_from == "result"):
                continue
            try:
                found = mover.learn(ran, result)
            except Exception:
                # Loaded here and elsewhere: a hook is a process for each call, and seldom has to log.
                import logging

                logging.getLogger("openbox_agentrt.acel").warning(
                    "a result of %.200r cannot be read", self.tool, exc_info=True
                )
                continue
            if found is not None:
                learnt[name] = found
        return learnt

    def from_result(self, learnt: Mapping[str, Any] | None) -> dict[str, Any]:
        """Pick of what was learnt what the result said, and not the arguments."""
        if not learnt:
            return {}
        names = {mover.learns for mover in (self.ran or self).movers() if mover.learns_from == "result"}
        return {name: found for name, found in learnt.items() if name in names}

    def plan_again(self, plan: Plan) -> None:
        """Take another plan, since other rules are in force. What the session itself objects to stays."""
        own = (
            []
            if self.extra is None
            else [g for g in self.extra.guards if isinstance(g.contract, SessionRule)]
        )
        self.plan = plan
        self.extra = plan.ask(self.args) if own or plan.asked else None
        if own and self.extra is not None:
            self.extra = self.extra.also(own)

    def lessons_of_arguments(self, args: Mapping[str, Any]) -> tuple[PlannedCall, dict[str, Any]]:
        """Give the call as if it had been made with other arguments, and what is learnt from those."""
        again = PlannedCall(self.tool, plain_args(args), self.plan)
        again.step = self.step
        if self.plan.asked:
            again.extra = self.plan.ask(again.args)
        return again, again.lessons(None, {})

    def as_ran(self) -> PlannedCall | None:
        """Ask what contracts say about the arguments that really ran; None if those were judged."""
        if self.final is not None and self.ran is None:
            ran = PlannedCall(self.tool, self.final, self.plan)
            ran.late = True
            ran.step, ran.deferred, ran.measured = self.step, self.deferred, self.measured
            ran.learnt = self.learnt
            ran.about = self.about
            if self.plan.asked:
                ran.extra = self.plan.ask(self.final)
            self.ran = ran
        return self.ran


def seen_of(call: PlannedCall, result: Any) -> Any:
    """Give what the trace and violations hold of a result."""
    if call.conceal is None:
        return result
    try:
        return call.conceal(result)
    except Exception as error:  # noqa: BLE001 - fail-closed: what cannot be concealed is not shown
        return {"$error": fault_text("concealing the result", error)}
