"""
Judge a call again that was let through, and has waited since.

What it reserved is given back, so that it is not in its own way; the contracts that want to know look at it
as if it came now; and it is reserved again. What lives by time counts from now on: it is now that it runs.
"""

from __future__ import annotations

from typing import Any

from ...contracts.declaration import Declaration
from ...memory.cell import Mover
from ...memory.guard import Breach, LiveGuard
from ...memory.tally import Tally
from ..plan.planned_call import PlannedCall
from ..plan.tool_plan import ArgumentRules, identity
from .judging import explained
from .settling_as_ran import guards_of


def is_to_recheck(call: PlannedCall) -> bool:
    """Tell whether a contract wants to look at a call again, or what it moved lives by time."""
    if call.early:
        return False
    return (
        any(guard.contract.recheck for guard in guards_of(call))
        or any(_renews(mover) for mover in call.movers())
        or any(entry.contract.recheck and entry.contract.is_asked_when for entry, _ in call.plan.asked)
    )


def asked_again(call: PlannedCall) -> ArgumentRules:
    """Ask again what is known without the lock of the contracts that say when they are asked."""
    again = ArgumentRules()
    if any(entry.contract.is_asked_when for entry, _ in call.plan.asked):
        said = call.plan.ask(call.args)
        again.faults = said.faults
        again.open = [(entry, hits) for entry, hits in said.open if entry.contract.recheck]
    return again


def judge_again(call: PlannedCall, again: ArgumentRules) -> list[Breach]:
    """Judge a call that is under way as if it came now, and reserve it anew. The store's lock is held."""
    guards = [guard for guard in guards_of(call) if guard.contract.recheck and not _is_asked_when(guard)]
    if again.open:
        call.plan.decide(call, again)
        guards += again.guards
        _add_to(call, again)
    cells = {id(cell) for guard in guards for cell in _cells(guard)}
    tallies = [(tally, tally.first) for tally in call.plan.counts if id(tally) in cells]
    tickets = call.tickets or []
    renewed = [_renews(mover) or id(getattr(mover, "cell", mover)) in cells for mover, _ in tickets]
    for tally, _ in tallies:
        tally.undo(call.step, call)
    for (mover, ticket), anew in zip(tickets, renewed, strict=True):
        if anew:
            mover.undo(ticket, call)
    breaches = explained(guards, call)
    call.tickets = [
        (mover, mover.reserve(call) if anew else ticket)
        for (mover, ticket), anew in zip(tickets, renewed, strict=True)
    ]
    for tally, first in tallies:
        tally.reserve(call)
        tally.first = first
    return breaches


def _add_to(call: PlannedCall, again: ArgumentRules) -> None:
    """Let a call be the business of contracts that it was none of when it came."""
    assert call.extra is not None
    known = {id(guard) for guard in call.extra.guards}
    call.extra.guards += [guard for guard in again.guards if id(guard) not in known]
    call.extra.faults |= again.faults
    tickets = call.tickets or []
    moved = {identity(mover) for mover, _ in tickets}
    more = [mover for mover in (*again.counts, *again.movers) if identity(mover) not in moved]
    call.tickets = [*tickets, *((mover, mover.reserve(call)) for mover in more)]
    call.extra.moves = (*call.extra.moves, *more)
    call.special = True


def _is_asked_when(guard: LiveGuard) -> bool:
    return isinstance(guard.contract, Declaration) and guard.contract.is_asked_when


def _renews(mover: Mover) -> bool:
    cell: Any = getattr(mover, "cell", mover)
    return getattr(cell, "timeline", None) is not None or getattr(mover, "role", None) == "void"


def _cells(guard: LiveGuard) -> list[Any]:
    found = (getattr(guard, "cell", None), getattr(guard, "latest", None))
    return [cell for cell in found if isinstance(cell, Tally | Mover)]
