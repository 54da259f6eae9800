"""
List the errors of a shared store.

    FleetError                  the base
    |- FleetConfigError         the URL, the server's settings or the file are not what is needed
    |- FleetUnavailableError    no answer in time
    |- UnitsError              an amount that the store cannot add exactly
"""

from __future__ import annotations

__all__ = ("FleetConfigError", "FleetError", "FleetUnavailableError", "UnitsError")


class FleetError(Exception):
    """The base of all errors of a shared store."""


class FleetConfigError(FleetError):
    """The store cannot be used as it is configured. Nothing was reserved, and asking again does not help."""


class FleetUnavailableError(FleetError):
    """
    The store gave no answer in time. The call did not run, and what it may have reserved is given back.

    Attributes:
        retry_after: Seconds after which asking again may help.
    """

    def __init__(self, reason: str, *, retry_after: float) -> None:
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(f"the fleet's store does not answer: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by the default.
        return _rebuild_unavailable, (self.reason, self.retry_after)


class UnitsError(FleetError, ValueError):
    """An amount has more decimals than its cell, or is too large to be added exactly."""


def _rebuild_unavailable(reason: str, retry_after: float) -> FleetUnavailableError:
    return FleetUnavailableError(reason, retry_after=retry_after)
