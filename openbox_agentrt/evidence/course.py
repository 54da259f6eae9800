"""The course of a log: its times, its sessions, and what it says is missing from it."""

from datetime import datetime

_MOST_SESSIONS = 1_000


class Course:
    """
    Take note of what passes while a log is verified.

    Attributes:
        first: Time of the first entry.
        last: Time of the last entry.
        backwards: How often a time was earlier than the one before it.
        lost: How many records are missing by the log's own account.
    """

    def __init__(self) -> None:
        self.first: str | None = None
        self.last: str | None = None
        self.backwards = 0
        self.lost = 0
        self._sessions: dict[str, None] = {}
        self._back: tuple[int, float] | None = None

    def pass_entry(self, number: int, time: str, session: str | None) -> None:
        """Take note of one entry."""
        if self.last is None:
            self.first = time
        elif time < self.last:
            # Texts of one writer compare as their times do; only where they do not, they are read.
            seconds = _seconds_between(time, self.last)
            if seconds > 0:
                self.backwards += 1
                self._back = self._back or (number, seconds)
        self.last = time
        if session is not None and len(self._sessions) < _MOST_SESSIONS:
            self._sessions[session] = None

    @property
    def sessions(self) -> tuple[str, ...]:
        """Names of the sessions, in the order of their first entries."""
        return tuple(self._sessions)

    def notes(self) -> list[str]:
        """Say what a reader should know first."""
        notes = []
        if self.lost:
            notes.append(f"{self.lost} record(s) are missing by the log's own account")
        if self._back is not None:
            number, seconds = self._back
            first = f"first at {number}, by {seconds:.6g} s"
            notes.append(f"the writer's clock went back {self.backwards} time(s), {first}")
        return notes


def _seconds_between(earlier: str, later: str) -> float:
    try:
        return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
    except (ValueError, TypeError):
        # No time, or one of the two without an offset: nothing can be said.
        return 0.0
