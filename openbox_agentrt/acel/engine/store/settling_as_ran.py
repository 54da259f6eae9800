"""
Settle a call by what really ran.

What was judged is not always what runs: a person edits it, a policy redacts it, a hook rewrites it. When
the call ends, each cell that it moved is told how it ended, and the arguments that ran are looked at again:

* What both are counts as it ended. An amount or a value is then the one that ran.
* What only the judged call was stays counted where it limits and allows nothing: it was let through as that.
* What only the call that ran is counts as it ended, from now on. It could not be refused any more, so where
  it breaks something, that is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from ...memory.cell import Mover
from ...memory.clock import Timeline, together
from ...memory.guard import Breach, LiveGuard
from ...memory.tally import Tally
from ..plan.planned_call import PlannedCall
from ..plan.tool_plan import identity

End: TypeAlias = Literal["commit", "fail", "lose", "undo"]


def read_at_end(call: PlannedCall) -> Timeline:
    """Give the clocks that a call ends by. What ran as something else is judged and counted only then."""
    return call.plan.later if call.ran is None else together((call.plan.timeline, call.plan.later))


def settle_as_ran(call: PlannedCall, ran: PlannedCall | None, end: End) -> list[Breach] | None:
    """
    Tell every cell that a call moved how it ended. Called with the store's lock held.

    Args:
        call: The call as it was judged.
        ran: The call as it ran, if that is another.
        end: How it ended.

    Returns:
        What only its end shows to be broken, or None.
    """
    for tally in call.plan.counts:
        _settle_count(tally, call, end)
    if ran is None:
        for mover, ticket in call.tickets or ():
            _settle_one(mover, ticket, call, end)
        return _overshot(call) if call.deferred and end != "undo" else None
    kept, further = _guards_of_both(call, ran)
    broken: dict[int, Breach] = {}
    for guard in further:
        if id(guard.contract) not in broken and not guard.passes(ran):
            broken[id(guard.contract)] = _broken(guard, ran)
    _settle_both(call, ran, end)
    for guard in kept:
        if guard.overshoots(call):
            broken.setdefault(id(guard.contract), Breach(contract=guard.contract, stops=False))
    return list(broken.values())


def _settle_both(call: PlannedCall, ran: PlannedCall, end: End) -> None:
    judged = call.as_judged()
    tickets = call.tickets or ()
    further = {identity(mover): mover for mover in ran.movers()}
    both = {same for mover, _ in tickets if (same := identity(mover)) in further and mover.is_same(call, ran)}
    # As everywhere, a call takes what it needs before it gives what others need.
    new = [(mover, mover.reserve(ran)) for same, mover in further.items() if same not in both]
    for mover, ticket in tickets:
        if identity(mover) in both:
            _settle_one(mover, ticket, call, end)
        else:
            if call.early and type(mover) is Tally:
                mover.done -= 1
            if end == "lose":
                mover.lose(ticket, judged)
            else:
                mover.ran_otherwise(ticket, judged, failed=end == "fail")
    for mover, ticket in new:
        _settle_one(mover, ticket, ran, end)


def _settle_count(tally: Tally, call: PlannedCall, end: End) -> None:
    if end == "commit":
        tally.done += not call.early
        return
    if end != "lose":
        tally.done -= call.early
    if end == "undo" or (end == "fail" and tally.refund):
        tally.undo(call.step, call)


def _settle_one(mover: Mover, ticket: Any, call: PlannedCall, end: End) -> None:
    if call.early and type(mover) is Tally:
        _settle_count(mover, call, end)
    elif end == "commit":
        mover.commit(ticket, call)
    elif end == "fail":
        mover.fail(ticket, call)
    elif end == "lose":
        mover.lose(ticket, call)
    else:
        mover.undo(ticket, call)


def guards_of(call: PlannedCall) -> Iterator[LiveGuard]:
    """List what a call has to pass."""
    yield from call.plan.guards
    if call.extra is not None:
        yield from call.extra.guards


def _guards_of_both(call: PlannedCall, ran: PlannedCall) -> tuple[list[LiveGuard], list[LiveGuard]]:
    # A guard that let the judged call through is asked again only if it looks at other memory now.
    known = {id(guard) for guard in guards_of(call)}
    kept: list[LiveGuard] = []
    further: list[LiveGuard] = []
    for guard in guards_of(ran):
        (kept if id(guard) in known and guard.is_same(call, ran) else further).append(guard)
    return kept, further


def _overshot(call: PlannedCall) -> list[Breach]:
    return [
        Breach(contract=guard.contract, stops=False) for guard in guards_of(call) if guard.overshoots(call)
    ]


def _broken(guard: LiveGuard, ran: PlannedCall) -> Breach:
    breach = guard.explain(ran)
    breach.stops = False
    guard.told(ran)
    return breach
