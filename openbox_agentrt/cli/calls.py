"""Calls of logs, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..evidence.calls import CallRecord
from .text import compact_json, printable

__all__ = ("CallFilter", "call_lines")

_ARGUMENTS = 60
_TIME = len("2026-01-02T03:04:05.678")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """
    Say which calls are wanted; None for any.

    Attributes:
        tool: The tool.
        session: The session.
        verdict: "allowed", "refused", or the very word of the decision.
        since: The earliest time, ISO 8601, or the beginning of one.
        until: The time before which it was, likewise.
    """

    tool: str | None = None
    session: str | None = None
    verdict: str | None = None
    since: str | None = None
    until: str | None = None

    def wants(self, call: CallRecord) -> bool:
        """Say whether a call is one of them."""
        return (
            self.tool in (None, call.tool)
            and self.session in (None, call.session)
            and (self.verdict is None or self.verdict in (call.verdict, _group(call)))
            and (self.since is None or call.time >= self.since)
            and (self.until is None or call.time < self.until)
        )


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
