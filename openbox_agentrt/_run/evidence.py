"""Write the evidence of one session: violations and decisions, under the session's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import OptionError
from ..evidence.format2.recording import SessionEvidence
from ..evidence.redaction.redactor import redactor_of

if TYPE_CHECKING:
    from ..acel.violations import Violation
    from ..evidence import EvidenceFile
    from ..evidence.redaction.redactor import Redactor
    from ..options import GovernanceOptions


class Recorder(Protocol):
    """Keep violations and decisions as evidence. Neither method raises."""

    def record(self, violation: Violation, /) -> Any: ...

    def record_decision(self, decision: Mapping[str, Any], /) -> Any: ...


class SessionRecorder(SessionEvidence["EvidenceFile"]):
    """
    Write to an evidence file as one session, which the file is told of with the first record.

    Runs in which nothing happened leave nothing behind. `rules_hash` gives the rules that the session is
    under when something does.
    """

    __slots__ = ("_is_told", "_rules_hash")

    # What Core redacts is redacted in the evidence too, and contracts are asked before Core is.
    late_arguments = True

    def __init__(self, file: EvidenceFile, session_id: str, rules_hash: Callable[[], str | None]) -> None:
        super().__init__(file, session_id)
        self._rules_hash = rules_hash
        self._is_told = False

    @property
    def file(self) -> EvidenceFile:
        """The file, which has been told of the session."""
        # Two threads may both come here; the file then names the session twice, which says the same.
        if not self._is_told:
            self._file.for_session(self.session_id, rules_hash=self._rules_hash())
            self._is_told = True
        return self._file


def foreign_evidence(log: Any, options: GovernanceOptions) -> EvidenceFile | Recorder:
    """
    Take an object of the user's own for evidence: an `EvidenceFile`, an `EvidenceLog`, acel-core's, another.

    Raises:
        OptionError: It cannot do what other options ask of it.
    """
    from ..evidence import EvidenceFile

    if isinstance(log, EvidenceFile):
        for name in ("redact_fields", "redaction_key", "anchors"):
            if getattr(options, name) is not None:
                raise OptionError(name, "has to be given to the evidence file that was opened")
        if options.record != "violations" and not log.records_decisions:
            raise OptionError(
                "record", f"is {options.record!r}, and the evidence file that was opened keeps violations"
            )
        if options.record == "steps" and not log.records_steps:
            raise OptionError("record", "is 'steps', and the evidence file that was opened keeps none")
        return log
    if options.record == "steps":
        raise OptionError("record", "is 'steps', which an evidence file keeps and no other object")
    if options.record == "all" and not callable(getattr(log, "record_decision", None)):
        raise OptionError("record", f"is 'all', and {type(log).__name__} has no record_decision()")
    if options.redact_fields is None:
        return _Foreign(log, None)
    redactor, key = redactor_of(options.redact_fields), redaction_key_of(options)
    return _Foreign(log, redactor if key is None else redactor.keyed(key))


def redaction_key_of(options: GovernanceOptions) -> bytes | None:
    """
    Read the option ``redaction_key``; None if it is not set.

    Raises:
        OptionError: It is too short, or no file that can be used.
    """
    given = options.redaction_key
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike | bytes):
        raise OptionError("redaction_key", f"must be bytes or a file, not {type(given).__name__}")
    from ..evidence.errors import KeyFileError
    from ..evidence.keys import read_redaction_key

    try:
        return read_redaction_key(given)
    except (ValueError, KeyFileError) as error:
        remedy = getattr(error, "remedy", None)
        raise OptionError("redaction_key", f"cannot be used: {error}", remedy=remedy) from error


class _Foreign:
    """Pass violations to a log that may know nothing else, without what must not be seen."""

    __slots__ = ("_log", "_redactor")

    def __init__(self, log: Any, redactor: Redactor | None) -> None:
        self._log = log
        self._redactor = redactor

    def record(self, violation: Violation) -> Any:
        hidden = self._redactor
        if hidden is not None:
            violation = replace(
                violation,
                args=_mapping(hidden.redact(violation.args)),
                result=hidden.redact(violation.result),
                state_snapshot=_mapping(hidden.redact(violation.state_snapshot)),
                trace=[_mapping(hidden.redact(row)) for row in violation.trace],
            )
        return self._log.record(violation)

    def record_decision(self, decision: Mapping[str, Any]) -> Any:
        record = getattr(self._log, "record_decision", None)
        return None if record is None else record(decision)

    def record_outcome(self, outcome: Mapping[str, Any]) -> Any:
        record = getattr(self._log, "record_outcome", None)
        return None if record is None else record(outcome)


def _mapping(value: Any) -> dict[str, Any]:
    # A redactor gives plain data of the same shape.
    return value if isinstance(value, dict) else {}
