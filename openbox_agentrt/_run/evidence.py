"""Where the evidence of one session goes: violations and decisions, under the session's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..acel.violations import Violation
    from ..evidence import EvidenceFile


class Recorder(Protocol):
    """What keeps evidence. Neither method raises."""

    def record(self, violation: Violation, /) -> Any: ...

    def record_decision(self, decision: Mapping[str, Any], /) -> Any: ...


class SessionRecorder:
    """
    An evidence file as one session sees it.

    The file is told of the session when there is something to record about it, so that runs in which nothing
    happened leave nothing behind.
    """

    __slots__ = ("_file", "_log", "_rules_hash", "_session_id")

    def __init__(self, file: EvidenceFile, session_id: str, rules_hash: str | None) -> None:
        self._file = file
        self._session_id = session_id
        self._rules_hash = rules_hash
        self._log: Recorder | None = None

    def record(self, violation: Violation) -> Any:
        return self._opened().record(violation)

    def record_decision(self, decision: Mapping[str, Any]) -> Any:
        return self._opened().record_decision(decision)

    def _opened(self) -> Recorder:
        # Two threads may both come here; the file then names the session twice, which says the same.
        log = self._log
        if log is None:
            log = self._log = self._file.for_session(self._session_id, rules_hash=self._rules_hash)
        return log
