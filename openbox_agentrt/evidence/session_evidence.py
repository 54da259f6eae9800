"""A log as one session sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .format2.file import EvidenceFile

__all__ = ("Recordable", "SessionEvidence")


class Recordable(Protocol):
    """What can be recorded: a violation."""

    def to_dict(self) -> dict[str, Any]:
        """The violation as a mapping."""


class SessionEvidence:
    """A log as one session sees it. See `EvidenceFile.for_session`."""

    __slots__ = ("_file", "session_id")

    def __init__(self, file: EvidenceFile, session_id: str) -> None:
        self._file = file
        self.session_id = session_id

    @property
    def file(self) -> EvidenceFile:
        """The log."""
        return self._file

    @property
    def failures(self) -> int:
        """Failures of the log, those of other sessions included."""
        return self._file.failures

    def record(self, violation: Recordable) -> int | None:
        """Record a violation of this session."""
        return self._file.record(violation, session_id=self.session_id)

    def record_decision(self, decision: Mapping[str, Any]) -> int | None:
        """Record a decision about this session, if decisions are recorded."""
        return self._file.record_decision(decision, session_id=self.session_id)

    def seal(self) -> None:
        """Bring the head of the log up to date."""
        self._file.seal()
