"""
Failures of recording.

Evidence must not stop the call that it is about, so recording raises nothing. What went wrong is counted,
kept, and logged: once per kind of error, because a full disk fails a thousand times a second.
"""

from .._plain.objects import error_name
from .._primitives import allocate_lock


class Failures:
    """
    Counts what could not be recorded.

    Attributes:
        count: How many times recording failed.
        last: The last failure in one line, or None.
    """

    __slots__ = ("_lock", "_logged", "count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: str | None = None
        self._logged: set[str] = set()
        self._lock = allocate_lock()

    def add(self, what: str, error: Exception) -> None:
        """Count a failure, and log it if it is the first of its kind."""
        kind = error_name(error)
        # The error's text can hold the data that was to be recorded, so only an operating system's is kept.
        detail = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        with self._lock:
            self.count += 1
            self.last = f"{what}: {kind}{detail}"
            first = self.last not in self._logged
            self._logged.add(self.last)
        if first:
            import logging

            logging.getLogger("openbox_agentrt.evidence").error("evidence was not recorded: %s", self.last)
