"""Calls of logs, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ..evidence.calls import CallRecord
from .running import InputError
from .text import compact_json, printable

_ARGUMENTS = 60
_TIME = len("2026-01-02T03:04:05.678")
_BEGINNINGS = tuple(map(len, ("2026", "2026-01", "2026-01-02", "2026-01-02T03", "2026-01-02T03:04")))
_FIRST_TIME = "0001-01-01T00:00:00"
Verdict = Literal[
    "allowed", "refused", "would refuse", "allow", "constrain", "require_approval", "block", "halt"
]
"""What calls can be chosen by: whether they were let through, or the very word of the decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """
    Say which calls are wanted; None for any.

    Attributes:
        tool: The tool.
        session: The session.
        verdict: "allowed", "refused", or the very word of the decision.
        outcome: What became of it, see `CallRecord`.
        since: The earliest time as `time_in_logs` gives it.
        until: The time before which it was, likewise.
    """

    tool: str | None = None
    session: str | None = None
    verdict: str | None = None
    outcome: str | None = None
    since: str | None = None
    until: str | None = None

    def wants(self, call: CallRecord) -> bool:
        """Say whether a call is one of them."""
        return (
            self.tool in (None, call.tool)
            and self.session in (None, call.session)
            and (self.verdict is None or self.verdict in (call.verdict, _group(call)))
            and self.outcome in (None, call.outcome)
            and (self.since is None or call.time >= self.since)
            and (self.until is None or call.time < self.until)
        )


def time_in_logs(text: str) -> str:
    """
    Write a time, or the beginning of one, as logs do, so that it can be compared with theirs as text.

    Args:
        text: A time in ISO 8601, with a "T" or a blank in the middle; UTC unless it has an offset. What is
            left out at the end is its beginning.

    Raises:
        InputError: If it is none.
    """
    given = text.strip().replace(" ", "T", 1)
    if len(given) in _BEGINNINGS:
        given += _FIRST_TIME[len(given) :]
    try:
        moment = datetime.fromisoformat(given)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"not a time: {text!r}; write it as 2026-01-31T23:59, or the beginning of it"
        ) from error
    # Logs leave out a fraction that is zero, so it is left out here as well.
    return moment.isoformat()


def call_lines(calls: Iterable[CallRecord], *, wide: bool, with_files: bool) -> Iterator[str]:
    """Give a line for each call; a wide one holds everything, a narrow one fits most terminals."""
    write: Callable[[CallRecord], Iterator[str]] = _wide if wide else _narrow
    for call in calls:
        parts = [*write(call), *([f"[{call.file}]"] if with_files else [])]
        yield printable("  ".join(part for part in parts if part))


def _group(call: CallRecord) -> str:
    return "refused" if call.refused else "allowed"


def _narrow(call: CallRecord) -> Iterator[str]:
    yield call.time[:_TIME].replace("T", " ")
    yield call.session or "-"
    arguments = "" if call.args is None else compact_json(call.args)
    yield f"{call.tool} {arguments if len(arguments) <= _ARGUMENTS else arguments[: _ARGUMENTS - 3] + '...'}"
    yield _verdict(call)
    yield "" if call.outcome in (None, "did not run") else f"-> {call.outcome}"


def _wide(call: CallRecord) -> Iterator[str]:
    yield f"{call.number:>6}"
    yield call.time
    yield f"agent={call.agent}" if call.agent else ""
    yield f"session={call.session or '-'}"
    yield f"{call.tool} {'' if call.args is None else compact_json(call.args)}"
    yield _verdict(call)
    yield f"contracts={', '.join(call.contracts)}" if call.contracts else ""
    yield f"why={call.why}" if call.why else ""
    yield f"outcome={call.outcome}" if call.outcome else ""
    yield f"note={call.note}" if call.note else ""


def _verdict(call: CallRecord) -> str:
    by = f" by {call.by}" if call.by else ""
    return f"{call.verdict}{by}" + (f", {call.approver}" if call.approver else "")
