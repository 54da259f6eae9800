"""One session's view of a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar


class Recordable(Protocol):
    """Describe what can be recorded: a violation."""

    def to_dict(self) -> dict[str, Any]:
        """The violation as a mapping."""


class SharedLog(Protocol):
    """Describe a log that several sessions write to, as `EvidenceFile` is one."""

    @property
    def failures(self) -> int: ...

    def record(self, violation: Recordable, *, session_id: str | None = None) -> int | None: ...

    def record_decision(
        self, decision: Mapping[str, Any], *, session_id: str | None = None
    ) -> int | None: ...

    def record_outcome(self, outcome: Mapping[str, Any], *, session_id: str | None = None) -> int | None: ...

    @property
    def records_steps(self) -> bool: ...

    @property
    def redacts(self) -> bool: ...

    def record_step(self, step: Mapping[str, Any], *, session_id: str | None = None) -> int | None: ...

    def record_rules(self, rules: Mapping[str, Any]) -> int | None: ...

    def warn_of_hidden(self, rules: Mapping[str, Any]) -> None: ...

    def seal(self) -> None: ...


_Log = TypeVar("_Log", bound=SharedLog)


class SessionEvidence(Generic[_Log]):
    """Write to a log as one session. See `EvidenceFile.for_session`."""

    __slots__ = ("_file", "session_id")

    def __init__(self, file: _Log, session_id: str) -> None:
        self._file = file
        self.session_id = session_id

    @property
    def file(self) -> _Log:
        """The log that this is a view of."""
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

    def record_outcome(self, outcome: Mapping[str, Any]) -> int | None:
        """Record what became of something that was decided in this session, if decisions are recorded."""
        return self._file.record_outcome(outcome, session_id=self.session_id)

    @property
    def records_steps(self) -> bool:
        """True if the steps of this session are recorded."""
        return self._file.records_steps

    @property
    def redacts(self) -> bool:
        """True if parts of what is recorded are hidden."""
        return self._file.redacts

    def record_step(self, step: Mapping[str, Any]) -> int | None:
        """Record a step of this session, if steps are recorded."""
        return self._file.record_step(step, session_id=self.session_id)

    def record_rules(self, rules: Mapping[str, Any]) -> int | None:
        """Record the contracts of this session, if steps are recorded."""
        return self._file.record_rules(rules)

    def warn_of_hidden(self, rules: Mapping[str, Any]) -> None:
        """Name in the program's log the contracts that need what is redacted here."""
        self._file.warn_of_hidden(rules)

    def seal(self) -> None:
        """Bring the head of the log up to date."""
        self._file.seal()
