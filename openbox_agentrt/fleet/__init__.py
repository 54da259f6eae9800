"""
Contracts that hold across processes: a store that many workers share.

A call is reserved, started and finished, each in one atomic step, and a worker holds its reservations for as
long as it gives a sign of life. The store knows cells, guards and moves as plain data, and no contracts.
"""

from __future__ import annotations

from .._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .answers import BrokenGuard as BrokenGuard
    from .answers import Finished as Finished
    from .answers import FleetCounts as FleetCounts
    from .answers import How as How
    from .answers import Lease as Lease
    from .answers import Measured as Measured
    from .answers import Reserved as Reserved
    from .errors import FleetConfigError as FleetConfigError
    from .errors import FleetError as FleetError
    from .errors import FleetUnavailableError as FleetUnavailableError
    from .errors import SessionBusyError as SessionBusyError
    from .errors import SessionMemoryError as SessionMemoryError
    from .errors import UnitsError as UnitsError
    from .fleet import Fleet as Fleet
    from .opening import open_fleet as open_fleet
    from .plan import FleetCell as FleetCell
    from .plan import FleetGuard as FleetGuard
    from .plan import FleetMove as FleetMove
    from .plan import FleetPlan as FleetPlan
    from .redis.fleet import RedisFleet as RedisFleet
    from .sessions import SharedSession as SharedSession
    from .sqlite import SqliteFleet as SqliteFleet

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

__all__ = tuple(sorted(_HOME))

__getattr__, __dir__ = lazy_names(globals(), _HOME)
