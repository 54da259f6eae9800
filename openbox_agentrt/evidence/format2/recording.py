"""Records on their way into a log: whose they are, and what of them may not be seen."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar

from ..._plain.objects import error_name
from ..canonical import canonical, encode
from ..failures import Failures
from ..redaction.redacted_records import Recordable, redact_record
from ..redaction.redactor import Redactor
from .lines import LineType


class Recording(ABC):
    """
    Make lines of records, and hide in them what must not be seen. Nothing of it raises.

    Args:
        redactor: Hides secrets.
        marker_key: Key of digests where there is no redactor.
        session_id: Session of records that do not name one.
        record: What is recorded, see `EvidenceFile`.
    """

    def __init__(
        self, redactor: Redactor | None, marker_key: bytes | None, *, session_id: str | None, record: str
    ) -> None:
        self.session_id = session_id
        self._redactor = redactor
        self._marker_key = marker_key or os.urandom(32) if redactor is None else redactor.key
        self._records_decisions = record != "violations"
        self._records_steps = record == "steps"
        self._rules: set[Any] = set()
        self._warned: set[Any] = set()
        self._failures = Failures()

    @property
    def failures(self) -> int:
        """Count of what could not be recorded, sealed or put away."""
        return self._failures.count

    @property
    def last_failure(self) -> str | None:
        """The last failure in one line, or None."""
        return self._failures.last

    @property
    def marker_key(self) -> bytes:
        """Key of redaction markers and of digests. Whoever has it can try out what they stand for."""
        return self._marker_key

    @property
    def records_decisions(self) -> bool:
        """True if decisions are recorded too."""
        return self._records_decisions

    @property
    def records_steps(self) -> bool:
        """True if the steps of sessions are recorded too."""
        return self._records_steps

    @property
    def redacts(self) -> bool:
        """True if parts of what is recorded are hidden."""
        return self._redactor is not None

    def record(self, violation: Recordable, *, session_id: str | None = None) -> int | None:
        """
        Record a violation under its session.

        Args:
            violation: The violation. A session that it names itself is the one that counts.
            session_id: Session of a violation that names none; that of the log by default.

        Returns:
            The number of its line, or None if that failed.
        """
        own = getattr(violation, "session_id", None)
        fields = getattr(violation, "to_record", None) or violation.to_dict
        return self._add("violation", fields, own if isinstance(own, str) else session_id or self.session_id)

    def record_decision(self, decision: Mapping[str, Any], *, session_id: str | None = None) -> int | None:
        """
        Record a decision, if decisions are recorded. One that passed ungoverned always is.

        Args:
            decision: What was decided, as a mapping.
            session_id: Session that it is about; that of the log by default.

        Returns:
            The number of its line, or None if that failed or decisions are not recorded.
        """
        if not self._records_decisions and not _is_always_kept(decision):
            return None
        return self._add("decision", lambda: decision, session_id or self.session_id)

    def record_outcome(self, outcome: Mapping[str, Any], *, session_id: str | None = None) -> int | None:
        """
        Record what became of something that was decided, if decisions are recorded.

        Args:
            outcome: Which decision, and what became of it, as a mapping.
            session_id: Session that it is about; that of the log by default.

        Returns:
            The number of its line, or None if that failed or decisions are not recorded.
        """
        if not self._records_decisions:
            return None
        return self._add("outcome", lambda: outcome, session_id or self.session_id)

    def record_step(self, step: Mapping[str, Any], *, session_id: str | None = None) -> int | None:
        """
        Record a step of a session, if steps are recorded.

        Args:
            step: The step, as a session with this evidence makes them.
            session_id: Session that it is of; that of the log by default.

        Returns:
            The number of its line, or None if that failed or steps are not recorded.
        """
        if not self._records_steps:
            return None
        from ..steps import step_body  # loaded here: few hooks have steps to write

        return self._add_body("step", lambda: step_body(step, self._redactor), session_id or self.session_id)

    def record_rules(self, rules: Mapping[str, Any]) -> int | None:
        """Record the contracts of a session, if steps are recorded and these contracts are not in the log."""
        known = rules.get("hash")
        if not self._records_steps or known in self._rules:
            return None
        self.warn_of_hidden(rules)
        number = self._add("rules", lambda: rules, None)
        if number is not None:
            # What a full disk kept out is written with the next session of these contracts.
            self._rules.add(known)
        return number

    def warn_of_hidden(self, rules: Mapping[str, Any]) -> None:
        """
        Name in the program's log, once, the contracts that need what is redacted here.

        Sessions call it when they are made, so that nobody learns of it only from the audit.

        Args:
            rules: Contracts in the form in which a log has them.
        """
        if self._redactor is None or not self._records_steps or rules.get("hash") in self._warned:
            return
        self._warned.add(rules.get("hash"))
        # Loaded here: a hook has no time for it.
        import logging

        from ..steps import hidden_fields

        log = logging.getLogger("openbox_agentrt.evidence")
        for contract, text in zip(rules.get("contracts", ()), rules.get("texts", ()), strict=False):
            for field in hidden_fields(contract, self._redactor):
                log.warning(
                    "%.200s needs %r, which is redacted here: its decisions cannot be derived again",
                    text,
                    field,
                )

    def record_reload(self, before: str, after: str) -> int | None:
        """
        Record that other rules are in force from here on, by the hashes of both.

        Returns:
            The number of its line, or None if that failed.
        """
        return self._add("session", lambda: {"before": before, "rules_hash": after}, None)

    def for_session(self, session_id: str, *, rules_hash: str | None = None) -> "SessionEvidence[Self]":
        """Give the log as one session sees it: what is recorded through it carries the session's name."""
        self._add("session", lambda: {"rules_hash": rules_hash}, session_id)
        return SessionEvidence(self, session_id)

    @abstractmethod
    def seal(self) -> None:
        """Bring the head up to date. Never raises; a failure is counted, and the next seal tries again."""

    @abstractmethod
    def _put(self, type: LineType, body: bytes, session_id: str | None) -> int | None:
        """Write a line, if it can be written."""

    def _add(
        self, type: LineType, fields: Callable[[], Mapping[str, Any]], session_id: str | None
    ) -> int | None:
        redactor = None if type == "rules" else self._redactor
        return self._add_body(type, lambda: canonical(redact_record(fields(), redactor)), session_id)

    def _add_body(self, type: LineType, make: Callable[[], bytes], session_id: str | None) -> int | None:
        try:
            # Frozen before the lock is taken: this is the long part, and it runs code of the values.
            body = make()
            if not body.startswith(b"{"):
                raise TypeError("not a mapping")
        except Exception as error:  # noqa: BLE001
            # Fail open: the call goes on. That there was a record, and why it is not here, is recorded.
            self._failures.add("freeze", error)
            body = encode({"$error": error_name(error)})
        return self._put(type, body, session_id)


def _is_always_kept(decision: Mapping[str, Any]) -> bool:
    from ..ungoverned import is_always_kept  # loaded here: a hook records none

    return is_always_kept(decision)


_Log = TypeVar("_Log", bound=Recording)


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
        return self.file.record(violation, session_id=self.session_id)

    def record_decision(self, decision: Mapping[str, Any]) -> int | None:
        """Record a decision about this session, if decisions are recorded."""
        return self.file.record_decision(decision, session_id=self.session_id)

    def record_outcome(self, outcome: Mapping[str, Any]) -> int | None:
        """Record what became of something that was decided in this session, if decisions are recorded."""
        return self.file.record_outcome(outcome, session_id=self.session_id)

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
        return self.file.record_step(step, session_id=self.session_id)

    def record_rules(self, rules: Mapping[str, Any]) -> int | None:
        """Record the contracts of this session, if steps are recorded."""
        return self._file.record_rules(rules)

    def warn_of_hidden(self, rules: Mapping[str, Any]) -> None:
        """Name in the program's log the contracts that need what is redacted here."""
        self._file.warn_of_hidden(rules)

    def seal(self) -> None:
        """Bring the head of the log up to date."""
        self._file.seal()
