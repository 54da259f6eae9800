"""Plans that the tests of shared stores use, and waiting for a store."""

from __future__ import annotations

import time

from openbox_agentrt.fleet import (
    Fleet,
    FleetCell,
    FleetGuard,
    FleetMove,
    FleetPlan,
    FleetUnavailableError,
    Reserved,
)

SECOND = 1_000_000


def spend(amount: int = 100, limit: int = 500, *, key: str = "c-7", name: str = "refund") -> FleetPlan:
    """Spend units under a limit."""
    return FleetPlan(
        cells=(FleetCell(kind="sum", name=name, key=key, scale=2),),
        guards=(FleetGuard(kind="spend", cell=0, n=limit, amount=amount),),
        moves=(FleetMove(cell=0, amount=amount, limit=limit),),
    )


def at_most(n: int, *, name: str = "calls", key: str = "") -> FleetPlan:
    """Make one of at most n calls."""
    return FleetPlan(
        cells=(FleetCell(kind="tally", name=name, key=key),),
        guards=(FleetGuard(kind="cap", cell=0, n=n),),
        moves=(FleetMove(cell=0),),
    )


def succeed(name: str = "verify") -> FleetPlan:
    """Make a call that others need."""
    return FleetPlan(cells=(FleetCell(kind="tally", name=name),), moves=(FleetMove(cell=0),))


def after(name: str = "verify") -> FleetPlan:
    """Make a call that needs a success of another."""
    return FleetPlan(
        cells=(FleetCell(kind="tally", name=name),), guards=(FleetGuard(kind="need", cell=0, n=1),)
    )


def when_it_answers(fleet: Fleet, plan: FleetPlan, *, started: bool = False) -> Reserved:
    """Reserve as soon as the store answers again."""
    end = time.monotonic() + 30
    while True:
        try:
            return fleet.reserve(plan, started=started)
        except FleetUnavailableError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
