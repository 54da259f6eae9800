"""The call that is measured: three contracts are about it."""

from __future__ import annotations

from openbox_agentrt._plain.calendar import Per
from openbox_agentrt.fleet import FleetCell, FleetGuard, FleetMove, FleetPlan

HUGE = 10**12


def payment(key: str, *, limit: int = HUGE, within: int | None = None) -> FleetPlan:
    """Spend one unit of a customer's daily budget, once a tally is there, under a count of all calls."""
    per: Per | None = None if within is not None else "day"
    return FleetPlan(
        cells=(
            FleetCell(kind="tally", name="blocked", key=key),
            FleetCell(kind="sum", name="paid", key=key, scale=2, within=within, per=per),
            FleetCell(kind="tally", name="calls"),
        ),
        guards=(
            FleetGuard(kind="ban", cell=0),
            FleetGuard(kind="spend", cell=1, n=limit, amount=1),
            FleetGuard(kind="cap", cell=2, n=HUGE),
        ),
        moves=(FleetMove(cell=1, amount=1, limit=limit), FleetMove(cell=2)),
    )
