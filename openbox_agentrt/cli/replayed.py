"""Recorded sessions, judged again: who broke what, how often, and for which key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..acel.events import TraceError
from ..acel.rulesfile import Rules
from ..acel.session import Session
from ..acel.violations import Violation
from ..evidence import EvidenceLog
from ..traces.rows import read_calls
from .running import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """
    A call of a trace.

    Attributes:
        where: The file and the row.
        session: The session that it belongs to.
        row: The call, as it stands there.
    """

    where: str
    session: str
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundViolation:
    """
    A violation that a replay found.

    Attributes:
        session: The session of the call.
        violation: The violation.
        key_name: The argument by which the contract is split, if it is.
        key: The value of that argument, where it can be told.
    """

    session: str
    violation: Violation
    key_name: str | None
    key: str | None

    @property
    def call(self) -> tuple[str, int]:
        """Which call it was."""
        return self.session, self.violation.step

    def to_record(self) -> dict[str, Any]:
        """Give every field, for JSON."""
        return {**self.violation.to_record(), "session": self.session, "key": self.key}


class ReplayedSessions:
    """
    The sessions of one or more traces.

    A row belongs to the session that it names, wherever it stands; one that names none, to that of its
    trace.
    """

    def __init__(self, rules: Rules, *, evidence: EvidenceLog) -> None:
        self._rules = rules
        self._by_spec = {contract.spec: contract for contract in rules.contracts}
        self._evidence = evidence
        self._sessions: dict[str, Session] = {}
        self._found: list[FoundViolation] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def of_trace(self, trace: str) -> Iterator[RecordedCall]:
        """
        Read the calls of a trace.

        Raises:
            InputError: It is no trace. It names the file and the row.
        """
        for where, row in read_calls(trace):
            named = row.pop("session_id", None)
            if not isinstance(named, str | None):
                raise InputError(f"{where}: 'session_id' must be text, got {type(named).__name__}")
            yield RecordedCall(where=where, session=trace if named is None else named, row=row)

    def replay(self, call: RecordedCall) -> None:
        """
        Judge a call that was recorded.

        Raises:
            InputError: The call cannot be read.
        """
        session = self._sessions.get(call.session)
        if session is None:
            session = self._sessions[call.session] = Session.from_rules(
                self._rules,
                halt_on_violation=False,
                session_id=call.session,
                # What happened elsewhere is not in the trace.
                fleet="alone",
                evidence=self._evidence,
            )
        try:
            self._keep(call.session, session.replay_prefix([call.row], every=True))
        except TraceError as error:
            raise InputError(f"{call.where}: {error.problem}") from error

    def end(self) -> list[FoundViolation]:
        """End every session, and return what all of them broke."""
        for name, session in self._sessions.items():
            self._keep(name, session.replay([], every=True))
        return self._found

    def _keep(self, session: str, violations: Iterable[Violation]) -> None:
        for violation in violations:
            contract = self._by_spec.get(violation.spec)
            self._found.append(
                FoundViolation(
                    session=session,
                    violation=violation,
                    key_name=None if contract is None or contract.split is None else contract.split.written,
                    key=None if contract is None else contract.key_of(violation.tool, violation.args),
                )
            )


def counted(found: Sequence[FoundViolation]) -> list[dict[str, Any]]:
    """Count the calls that broke each contract, and those of each key of it, the most frequent first."""
    by_contract: dict[str, list[FoundViolation]] = {}
    for each in found:
        by_contract.setdefault(each.violation.spec, []).append(each)
    counts = [
        {
            "spec": spec,
            "id": broken[0].violation.id,
            "calls": len(broken),
            "keys": dict(Counter(each.key for each in broken if each.key is not None).most_common()),
        }
        for spec, broken in by_contract.items()
    ]
    return sorted(counts, key=lambda count: -count["calls"])
