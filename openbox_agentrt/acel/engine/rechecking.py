"""
Judge a call again that was let through, and has waited since.

What it reserved is given back, so that it is not in its own way; the contracts that want to know look at it
as if it came now; and it is reserved again. What lives by time counts from now on: it is now that it runs.
"""

from __future__ import annotations

from typing import Any

from ..memory.cell import Mover
from ..memory.guard import Breach, LiveGuard
from ..memory.tally import Tally
from .as_ran import guards_of
from .judging import explained
from .planned_call import PlannedCall


def is_to_recheck(call: PlannedCall) -> bool:
    """Tell whether a contract wants to look at a call again, or what it moved lives by time."""
    if call.early:
        return False
    return any(guard.contract.recheck for guard in guards_of(call)) or any(
        _renews(mover) for mover in call.movers()
    )


def judge_again(call: PlannedCall) -> list[Breach]:
    """Judge a call that is under way as if it came now, and reserve it anew. The store's lock is held."""
    guards = [guard for guard in guards_of(call) if guard.contract.recheck]
    cells = {id(cell) for guard in guards for cell in _cells(guard)}
    tallies = [(tally, tally.first) for tally in call.plan.counts if id(tally) in cells]
    tickets = call.tickets or []
    renewed = [_renews(mover) or id(getattr(mover, "cell", mover)) in cells for mover, _ in tickets]
    for tally, _ in tallies:
        tally.undo(call.step, call)
    for (mover, ticket), again in zip(tickets, renewed, strict=True):
        if again:
            mover.undo(ticket, call)
    breaches = explained(guards, call)
    call.tickets = [
        (mover, mover.reserve(call) if again else ticket)
        for (mover, ticket), again in zip(tickets, renewed, strict=True)
    ]
    for tally, first in tallies:
        tally.reserve(call)
        tally.first = first
    return breaches


def _renews(mover: Mover) -> bool:
    cell: Any = getattr(mover, "cell", mover)
    return getattr(cell, "timeline", None) is not None or getattr(mover, "role", None) == "void"


def _cells(guard: LiveGuard) -> list[Any]:
    found = (getattr(guard, "cell", None), getattr(guard, "latest", None))
    return [cell for cell in found if isinstance(cell, Tally | Mover)]
