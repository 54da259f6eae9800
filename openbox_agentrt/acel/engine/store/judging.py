"""Explain why guards object to a call. Nothing moves, and the store's lock is held."""

from __future__ import annotations

from collections.abc import Iterable

from ...memory.guard import Breach, LiveGuard
from ..plan.planned_call import PlannedCall
from ..plan.tool_plan import Plan


def explain(plan: Plan, call: PlannedCall, *, tell: bool = True) -> list[Breach]:
    """Say of each contract that a call would break why, once. With `tell`, guards take note of it."""
    extra = () if call.extra is None else call.extra.guards
    return explained((*plan.guards, *extra), call, tell=tell)


def explained(guards: Iterable[LiveGuard], call: PlannedCall, *, tell: bool = True) -> list[Breach]:
    """Say of each contract that has one of these guards, and that a call would break, why, once."""
    extra = call.extra
    # All are asked before one explains: what is told to one contract is still owed to another.
    broken: dict[int, LiveGuard] = {}
    for guard in guards:
        if id(guard.contract) not in broken and not guard.passes(call):
            broken[id(guard.contract)] = guard
    breaches = []
    for key, guard in broken.items():
        breach = guard.explain(call)
        if breach.fault is None and extra is not None:
            breach.fault = extra.faults.get(key)
        breaches.append(breach)
    if tell:
        for guard in broken.values():
            guard.told(call)
    return breaches
