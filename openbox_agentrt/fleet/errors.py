"""
List the errors of a shared store.

    FleetError                  the base
    |- FleetConfigError         the URL, the server's settings or the file are not what is needed
    |- FleetUnavailableError    no answer in time
    |- SessionBusyError         another worker has the session
    |- SessionMemoryError       the memory of the session cannot be kept, or not be read
    |- UnitsError              an amount that the store cannot add exactly
"""

from __future__ import annotations

from .._picklable import PicklableError


class FleetError(PicklableError):
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


class SessionBusyError(FleetError):
    """
    Another worker that lives has the session, or may have it. Nothing ran here.

    Attributes:
        session: Its name.
        lost: Whether the store has lost data, and with it, perhaps, who has the session.
        retry_after: Seconds after which asking again helps, if the other worker is dead; if it lives, it may
            be sooner or later.
    """

    def __init__(self, session: str, *, retry_after: float, lost: bool = False) -> None:
        self.session = session
        self.retry_after = retry_after
        self.lost = lost
        why = "may be in use by a worker that has yet to hear that the store lost its data"
        super().__init__(f"session {session!r} {why if lost else 'is in use by another worker'}")


class SessionMemoryError(FleetError):
    """What a session remembers cannot be kept in the store, or what is kept cannot be read. Nothing ran."""


class UnitsError(FleetError, ValueError):
    """An amount has more decimals than its cell, or is too large to be added exactly."""
