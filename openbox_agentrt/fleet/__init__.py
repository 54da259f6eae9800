"""
Contracts that hold across processes: a store that many workers share.

A call is reserved, started and finished, each in one atomic step, and a worker holds its reservations for as
long as it gives a sign of life. The store knows cells, guards and moves as plain data, and no contracts.
"""

from __future__ import annotations

from .._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .answers import BrokenGuard, Finished, FleetCounts, How, Lease, Measured, Reserved
    from .errors import (
        FleetConfigError,
        FleetError,
        FleetUnavailableError,
        SessionBusyError,
        SessionMemoryError,
        UnitsError,
    )
    from .fleet import Fleet
    from .opening import open_fleet
    from .plan import FleetCell, FleetGuard, FleetMove, FleetPlan
    from .redis.fleet import RedisFleet
    from .sessions import SharedSession
    from .sqlite import SqliteFleet

_HOME = {
    "UnitsError": "errors",
    "BrokenGuard": "answers",
    "Finished": "answers",
    "Fleet": "fleet",
    "FleetCell": "plan",
    "FleetConfigError": "errors",
    "FleetCounts": "answers",
    "FleetError": "errors",
    "FleetGuard": "plan",
    "FleetMove": "plan",
    "FleetPlan": "plan",
    "FleetUnavailableError": "errors",
    "How": "answers",
    "Lease": "answers",
    "Measured": "answers",
    "RedisFleet": "redis.fleet",
    "Reserved": "answers",
    "SessionBusyError": "errors",
    "SessionMemoryError": "errors",
    "SharedSession": "sessions",
    "SqliteFleet": "sqlite",
    "open_fleet": "opening",
}

__all__ = (
    "BrokenGuard",
    "Finished",
    "Fleet",
    "FleetCell",
    "FleetConfigError",
    "FleetCounts",
    "FleetError",
    "FleetGuard",
    "FleetMove",
    "FleetPlan",
    "FleetUnavailableError",
    "How",
    "Lease",
    "Measured",
    "RedisFleet",
    "Reserved",
    "SessionBusyError",
    "SessionMemoryError",
    "SharedSession",
    "SqliteFleet",
    "UnitsError",
    "open_fleet",
)

__getattr__, __dir__ = lazy_names(globals(), _HOME)
