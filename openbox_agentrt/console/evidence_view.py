"""Evidence as a page shows it: the break, the head, and the lines around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import values, words
from .evidence_log import FollowedLog, LineState, RecordedLine
from .sources import Sources
from .values import Piece
from .words import whole_number

LINES = 40
_BEFORE = 3
_HEAD_PROBLEMS = frozenset(("headless", "unsigned", "wrong_signer", "emptied", "truncated"))


class LogView:
    """Say in words how a log stands."""

    def __init__(self, log: FollowedLog) -> None:
        self.log = log
        self.name = log.name
        self.report = log.report
        self.head = log.head
        self.problem = log.problem
        self.public_key = log.public_key
        self.found_at = log.found_at
        self.intact = log.intact
        self.signed_by = log.signed_by

    def __len__(self) -> int:
        return len(self.log)

    @property
    def first_bad(self) -> int | None:
        """Give the line that does not hold, if it is a line."""
        report = self.report
        if report is None or report.first_bad is None or report.problem in _HEAD_PROBLEMS:
            return None
        return report.first_bad if report.first_bad < len(self) else None

    @property
    def headline(self) -> str:
        """Say what is wrong, in a few words."""
        if self.problem is not None:
            return f"{self.name} cannot be read"
        if self.first_bad is not None:
            return f"Evidence is broken at line {self.first_bad}"
        reason = "" if self.report is None else self.report.reason or ""
        return f"Evidence does not hold: {reason}"

    @property
    def why(self) -> str:
        """Say what is wrong, and what can be trusted still."""
        if self.problem is not None:
            return self.problem
        reason = "" if self.report is None else self.report.reason or ""
        bad = self.first_bad
        if bad is None:
            return reason
        before = f"lines 0 to {bad - 1} hold, " if bad else ""
        return f"{reason}; {before}nothing from {bad} on can be trusted"

    @property
    def summary(self) -> str:
        """Say how a log stands that nothing contradicts."""
        if self.report is None:
            return "the log is not there yet" if self.log.missing else "the log is being read"
        if self.public_key is None:
            return f"{words.count(len(self), 'line')} hold together, no key was given"
        late = len(self) - self.signed_lines
        return f"verified, {late} not yet signed" if late > 0 else "every line is verified"

    @property
    def short(self) -> str:
        """Say how it stands, for a tab."""
        if self.problem is not None:
            return "cannot be read"
        if not self.intact:
            return f"broken at {self.first_bad}" if self.first_bad is not None else "does not hold"
        if self.public_key is None:
            return f"{len(self):,} lines"
        late = len(self) - self.signed_lines
        return f"verified to {self.signed_lines - 1:,}" + (f", {late} not yet signed" if late > 0 else "")

    @property
    def lede(self) -> str:
        """Say more than `headline` or `summary`."""
        if self.intact:
            return ""
        bad = self.first_bad
        if bad is None:
            return words.sentence(f"{self.why}.")
        hold = f"Lines 0 to {bad - 1} hold together; nothing" if bad else "Nothing"
        return f"{hold} from line {bad} on can be trusted, and no signature reaches past the break."

    @property
    def signed_lines(self) -> int:
        """Count the lines that a signature of the key covers."""
        return 0 if self.report is None else self.report.signed

    @property
    def holds_to(self) -> str:
        """Name the last line that holds."""
        if self.problem is not None or not len(self):
            return "no line"
        bad = None if self.report is None else self.report.first_bad
        last = len(self) - 1 if bad is None else min(bad, len(self)) - 1
        return f"line {last}" if last >= 0 else "no line"

    @property
    def verified_to(self) -> str:
        """Name the last line that is verified, or say why none is."""
        if self.public_key is None:
            return "no line, since no key was given"
        if not self.intact:
            return "no line, because of the break"
        return f"line {self.signed_lines - 1}" if self.signed_lines else "no line"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineView:
    """
    Describe one line of a log.

    Attributes:
        about: What it records, in short.
        why: Where it is broken: hashes, by their names.
    """

    number: int
    state: LineState
    type: str
    verdict: str
    about: tuple[Piece, ...]
    at: float
    hash: str
    why: tuple[tuple[str, str], ...] = ()


def pages_of(view: LogView, start: int) -> list[tuple[str, int]]:
    """List where else to look: words and first lines."""
    last = max(0, len(view) - LINES)
    found = [("the first ones", 0)] if start else []
    if start > LINES:
        found.append(("those before", start - LINES))
    if view.first_bad is not None and not start <= view.first_bad < start + LINES:
        found.append(("around the break", max(0, view.first_bad - _BEFORE)))
    if start + LINES < last:
        found.append(("the next ones", start + LINES))
    return [*found, ("the last ones", last)] if start < last else found


def first_of(view: LogView, asked: str | None) -> int:
    """Say with which line a page begins: the one that is asked for, the break, or the last ones."""
    number = whole_number(asked, otherwise=None)
    if number is not None:
        return min(number, max(0, len(view) - 1))
    if view.first_bad is not None:
        return max(0, view.first_bad - _BEFORE)
    return max(0, len(view) - LINES)


def lines_of(sources: Sources, view: LogView, start: int) -> list[LineView]:
    """Read the lines of one page."""
    log = view.log
    found = list(log.lines(range(start, start + LINES + 1)))
    following = {line.number - 1: line for line in found}
    return [_line(sources, log, line, following.get(line.number)) for line in found[:LINES]]


def _line(sources: Sources, log: FollowedLog, line: RecordedLine, after: RecordedLine | None) -> LineView:
    state = log.state(line.number)
    parsed = line.parsed
    if parsed is None:
        return LineView(
            number=line.number,
            state=state,
            type="not a line",
            verdict="",
            about=values.pieces(line.raw[:80].decode("utf-8", "replace")),
            at=0.0,
            hash="",
            why=(("What stands there", "no line of an evidence log"),) if state == "broken" else (),
        )
    data: Any = sources.redactor.redact(parsed.data())
    verdict, about = _about(parsed.type, data if isinstance(data, dict) else {})
    return LineView(
        number=line.number,
        state=state,
        type=parsed.type,
        verdict=verdict,
        about=values.pieces(about[:200]),
        at=words.moment_of(parsed.time),
        hash=parsed.hash,
        why=tuple(_why(log, line, after)) if state == "broken" else (),
    )


def _why(log: FollowedLog, line: RecordedLine, after: RecordedLine | None) -> Iterator[tuple[str, str]]:
    assert line.parsed is not None
    yield "Hash stored", _groups(line.parsed.hash)
    if line.parsed.computed_hash != line.parsed.hash:
        yield "Hash of the line as it stands", _groups(line.parsed.computed_hash)
    else:
        yield "What is wrong", log.report.reason or "" if log.report is not None else ""
    if after is not None and after.parsed is not None:
        expected = after.parsed.prev
        which = "another one"
        if expected == line.parsed.hash:
            which = f"the stored one: line {line.number} was changed after line {after.number} was written"
        yield f"Line {after.number} expects", f"{_groups(expected)}, {which}"


def _groups(digest: str) -> str:
    return f"{digest[:4]} {digest[4:8]} {digest[8:12]} {digest[12:16]} … {digest[-4:]}"


def _about(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    """Say what a line records: the verdict, and the rest in words."""
    if kind == "decision":
        person = f", {data['approval']}" if data.get("approval") else ""
        by = f" by {data['decided_by']}" if data.get("decided_by") else ""
        return str(data.get("verdict", "")), f"{data.get('event', '')}{person}{by}"
    if kind == "violation":
        shadow = data.get("mode") == "shadow"
        how = "would break" if shadow else "by"
        what = f"{data.get('tool', '')} {how} {data.get('id') or data.get('spec', '')}"
        return "" if shadow else "block", what
    if kind == "step":
        return "", f"{data.get('e', '')} {data.get('tool', '')} {data.get('step', '')}".strip()
    if kind == "header":
        return "", f"log {data.get('log_id', '')}, records {data.get('record', '')}"
    if kind == "outcome":
        return "", f"{data.get('event', '')} {data.get('outcome', '')}"
    if kind == "gap":
        return "", f"{data.get('lost', 'some')} records were lost before this one"
    if kind == "rules":
        texts = data.get("texts")
        told = len(texts) if isinstance(texts, list) else "unreadable"
        return "", f"{told} contracts, rules {str(data.get('hash', ''))[:8]}"
    return "", f"rules {str(data.get('rules_hash', ''))[:8]}" if kind == "session" else kind
