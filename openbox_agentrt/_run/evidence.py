"""Where the evidence of one session goes: violations and decisions, under the session's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import OptionError
from ..evidence.redaction import redactor_of

if TYPE_CHECKING:
    from ..acel.violations import Violation
    from ..evidence import EvidenceFile, SessionEvidence
    from ..evidence.redaction import Redactor
    from ..options import GovernanceOptions


class Recorder(Protocol):
    """Keep violations and decisions as evidence. Neither method raises."""

    def record(self, violation: Violation, /) -> Any: ...

    def record_decision(self, decision: Mapping[str, Any], /) -> Any: ...


class SessionRecorder:
    """
    Show an evidence file as one session sees it.

    The file is told of the session when there is something to record about it, so that runs in which nothing
    happened leave nothing behind. `rules_hash` gives the rules that the session is under then.
    """

    __slots__ = ("_file", "_log", "_rules_hash", "_session_id")

    # What Core redacts is redacted in the evidence too, and contracts are asked before Core is.
    late_arguments = True

    def __init__(self, file: EvidenceFile, session_id: str, rules_hash: Callable[[], str | None]) -> None:
        self._file = file
        self._session_id = session_id
        self._rules_hash = rules_hash
        self._log: SessionEvidence[EvidenceFile] | None = None

    def record(self, violation: Violation) -> Any:
        return self._opened().record(violation)

    def record_decision(self, decision: Mapping[str, Any]) -> Any:
        return self._opened().record_decision(decision)

    def record_outcome(self, outcome: Mapping[str, Any]) -> Any:
        return self._opened().record_outcome(outcome)

    @property
    def records_steps(self) -> bool:
        """Tell whether the steps of the session belong into the evidence."""
        return self._file.records_steps

    @property
    def redacts(self) -> bool:
        """Tell whether parts of what is recorded are hidden."""
        return self._file.redacts

    def record_step(self, step: Mapping[str, Any]) -> Any:
        return self._opened().record_step(step)

    def record_rules(self, rules: Mapping[str, Any]) -> Any:
        return self._file.record_rules(rules)

    def _opened(self) -> SessionEvidence[EvidenceFile]:
        # Two threads may both come here; the file then names the session twice, which says the same.
        log = self._log
        if log is None:
            log = self._log = self._file.for_session(self._session_id, rules_hash=self._rules_hash())
        return log


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
