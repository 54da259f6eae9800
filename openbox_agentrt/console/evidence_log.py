"""
An evidence log, followed as it grows: where its lines are, what they are about, and whether they hold.

Lines are found again by their place in the file and read when a page shows them, so a long log costs a few
bytes a line. What verification says is what `verify_file` says.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..evidence.errors import EvidenceError
from ..evidence.format2.heads import Head, read_head
from ..evidence.format2.parsing import LogLine, parse_line
from ..evidence.format2.parts import parts_of
from ..evidence.keys import ed25519_verifier
from ..evidence.reading import verify_file
from ..evidence.report import Report
from ..evidence.ungoverned import is_ungoverned
from . import words

LineState = Literal["verified", "holds", "broken", "not trusted", "not yet signed"]

_RECENT = 20_000
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLine:
    """
    A line of a log.

    Attributes:
        number: Its position, from 0.
        parsed: What it says; None if it is no line.
        raw: Its bytes.
    """

    number: int
    parsed: LogLine | None
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision of the last hour in short."""

    at: float
    number: int
    workflow_id: str
    run_id: str
    event: str
    verdict: str
    source: str
    agent: str
    reason: str
    contracts: tuple[str, ...]
    ungoverned: bool
    acel_seconds: float
    core_seconds: float
    approval_seconds: float


@dataclass(slots=True)
class _Index:
    """Say where lines are, and what they are about."""

    files: list[tuple[Path, int]] = field(default_factory=list)
    places: array[int] = field(default_factory=lambda: array("Q"))
    decisions: dict[str, list[int]] = field(default_factory=dict)
    violations: dict[tuple[str | None, int], list[int]] = field(default_factory=dict)
    steps: dict[str, list[int]] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    resumed: list[tuple[int, int]] = field(default_factory=list)
    ungoverned: list[int] = field(default_factory=list)
    recent: deque[Decided] = field(default_factory=lambda: deque(maxlen=_RECENT))
    read: int = 0


class FollowedLog:
    """
    Follow one log of format 2. Any thread may use it; one calls `refresh`.

    Attributes:
        path: The log.
        report: What verification found last; None before the first time, or where it cannot be read.
        problem: Why it cannot be read; None if it can.
        found_at: When the break was first seen.
        missing: Whether there is no such file: not yet, which is none of a log's problems.
        changes: How often something was new.
    """

    def __init__(self, path: Path, public_key: str | None = None) -> None:
        self.path = path
        self.public_key = public_key
        self.report: Report | None = None
        self.head: Head | None = None
        self.problem: str | None = None
        self.found_at: float | None = None
        self.missing = True
        self.changes = 0
        self._lock = threading.Lock()
        self._index = _Index()
        self._seen: tuple[object, ...] = ()
        self._verified: tuple[object, ...] = ()
        self._not_before = 0.0

    @property
    def name(self) -> str:
        """Name the log by its file."""
        return self.path.name

    def __len__(self) -> int:
        return len(self._index.places)

    def refresh(self) -> None:
        """Read what has come, and verify the log if it has changed."""
        seen = self._stat()
        if seen != self._seen:
            with self._lock:
                self._read(seen)
            self._seen = seen
            self.changes += 1
        # A tenth of the time at most goes into verifying a log that grows all the time.
        if seen != self._verified and time.monotonic() >= self._not_before:
            began = time.monotonic()
            self._verify()
            self._verified = seen
            self._not_before = time.monotonic() + 9 * (time.monotonic() - began)
            self.changes += 1

    def lines(self, numbers: Iterable[int]) -> Iterator[RecordedLine]:
        """Read lines by their numbers."""
        with self._lock:
            index = self._index
            for number in numbers:
                if not 0 <= number < len(index.places):
                    continue
                path = next(path for path, first in reversed(index.files) if first <= number)
                yield _line_at(path, index.places[number], number)

    def decisions_of(self, run_id: str) -> list[RecordedLine]:
        """Read the decisions about a run."""
        return list(self.lines(tuple(self._index.decisions.get(run_id, ()))))

    def violations_of(self, number: int) -> list[RecordedLine]:
        """Read what broke contracts in the call that a decision is about."""
        line = next(iter(self.lines([number])), None)
        step = None if line is None or line.parsed is None else line.parsed.data().get("step")
        if line is None or line.parsed is None or not isinstance(step, int):
            return []
        return self.violations_at(line.parsed.session, step)

    def violations_at(self, session: str | None, step: int) -> list[RecordedLine]:
        """Read what broke contracts at a step of a session."""
        return list(self.lines(tuple(self._index.violations.get((session, step), ()))))

    def sessions(self) -> list[str]:
        """List the sessions with steps, by the name of their steps, the latest last."""
        with self._lock:
            steps = self._index.steps
            return sorted(steps, key=lambda run: steps[run][-1])

    def steps_of(self, run: str) -> list[tuple[int, dict[str, Any]]]:
        """Read the steps of a session."""
        found = self.lines(tuple(self._index.steps.get(run, ())))
        return [(line.number, line.parsed.data()) for line in found if line.parsed is not None]

    def session_of(self, run: str) -> str | None:
        """Name the session that steps are of; None also where the log was written anew and has none."""
        first = next(iter(self.lines(self._index.steps.get(run, ())[:1])), None)
        if first is None or first.parsed is None:
            return None
        return first.parsed.session or first.parsed.data().get("session")

    def steps_count(self, run: str) -> int:
        """Count the steps of a session."""
        return len(self._index.steps.get(run, ()))

    def rules(self) -> dict[str, dict[str, Any]]:
        """Read the rules that steps were judged by, by their hash."""
        index = self._index
        found = self.lines(tuple(index.rules.values()))
        said = [line.parsed.data() for line in found if line.parsed is not None]
        return {str(data.get("hash")): data for data in said}

    def recent(self, since: float) -> list[Decided]:
        """List the decisions since a moment."""
        with self._lock:
            return [one for one in self._index.recent if one.at >= since]

    def ungoverned(self) -> list[RecordedLine]:
        """Read the decisions about calls that ran though Core could not be asked, the latest hundred."""
        return list(self.lines(tuple(self._index.ungoverned[-100:])))

    def state(self, number: int) -> LineState:
        """Say whether a line holds."""
        report, head = self.report, self.head
        if report is None:
            return "not yet signed"
        if report.first_bad is not None:
            if number < report.first_bad:
                return "holds"
            return "broken" if number == report.first_bad else "not trusted"
        if head is None or number >= min(head.count, report.starts_at + report.count):
            return "not yet signed"
        late = any(start <= number < end for start, end in self._index.resumed)
        return "verified" if self.public_key is not None and not late else "holds"

    @property
    def intact(self) -> bool:
        """Tell whether nothing contradicts it."""
        return self.problem is None and (self.report is None or self.report.ok)

    @property
    def signed_by(self) -> bool | None:
        """Tell whether the signature of the head is of the key; None without a key or a head."""
        if self.public_key is None or self.head is None or self.head.signature is None:
            return None
        return ed25519_verifier(self.public_key)(self.head.statement(), self.head.signature)

    def _stat(self) -> tuple[object, ...]:
        found: list[object] = []
        for path in (self.path, self.path.with_name(self.path.name + ".head")):
            try:
                stat = path.stat()
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except OSError:
                found.append(None)
        return tuple(found)

    def _read(self, seen: tuple[object, ...]) -> None:
        if not self.path.exists():
            return  # nothing yet; what was there and has gone is said by `_verify`
        try:
            parts = parts_of(self.path)
            grown = self._index.files and parts == [path for path, _ in self._index.files]
            if not grown or self.path.stat().st_size <= self._index.read:
                # Another part has begun, or what was read is not what stands there now.
                self._index = _Index()
            for path in parts:
                if all(path != known for known, _ in self._index.files):
                    self._index.files.append((path, len(self._index.places)))
                    self._index.read = 0
                if path == parts[-1] or not grown:
                    self._take(path)
        except OSError as error:
            self.problem = (error.strerror or type(error).__name__).lower()

    def _take(self, path: Path) -> None:
        index = self._index
        with path.open("rb") as file:
            file.seek(index.read)
            while raw := file.readline():
                if not raw.endswith(b"\n"):
                    break  # the end of it is still to come
                number = len(index.places)
                index.places.append(index.read)
                index.read += len(raw)
                try:
                    self._file(number, parse_line(raw))
                except ValueError:
                    continue  # verification says so, with its place

    def _file(self, number: int, line: LogLine) -> None:
        index, data = self._index, line.data()
        if line.type == "decision":
            index.decisions.setdefault(str(data.get("run_id")), []).append(number)
            if is_ungoverned(data):
                index.ungoverned.append(number)
            at = words.moment_of(line.time)
            if at >= time.time() - _HOUR:
                index.recent.append(_decided(at, number, data))
        elif line.type == "violation" and isinstance(data.get("step"), int):
            index.violations.setdefault((line.session, data["step"]), []).append(number)
        elif line.type == "step":
            index.steps.setdefault(str(data.get("run")), []).append(number)
        elif line.type == "rules":
            index.rules[str(data.get("hash"))] = number
        elif line.type == "resumed":
            sealed, found = data.get("sealed"), data.get("found")
            if isinstance(sealed, int) and isinstance(found, int):
                index.resumed.append((sealed, found))

    def _verify(self) -> None:
        self.missing = not self.path.exists()
        if self.missing and not len(self):
            self.report = self.head = self.problem = None
            return
        try:
            self.head = read_head(self.path)
            self.report = verify_file(self.path, self.public_key)
            self.problem = None
        except (EvidenceError, OSError, ValueError) as error:
            # Shown in the place of a state: a log that cannot be read is not one that holds.
            self.report, self.problem = None, str(error)
        broken = self.problem is not None or (self.report is not None and not self.report.ok)
        self.found_at = (self.found_at or time.time()) if broken else None


def _line_at(path: Path, place: int, number: int) -> RecordedLine:
    with path.open("rb") as file:
        file.seek(place)
        raw = file.readline()
    try:
        return RecordedLine(number=number, parsed=parse_line(raw), raw=raw)
    except ValueError:
        return RecordedLine(number=number, parsed=None, raw=raw)


def _decided(at: float, number: int, data: dict[str, Any]) -> Decided:
    contracts = data.get("contracts")
    return Decided(
        at=at,
        number=number,
        workflow_id=str(data.get("workflow_id", "")),
        run_id=str(data.get("run_id", "")),
        event=str(data.get("event", "")),
        verdict=str(data.get("verdict", "")),
        source=str(data.get("source", "")),
        agent=str(data.get("agent") or ""),
        reason=str(data.get("reason") or ""),
        contracts=tuple(map(str, contracts)) if isinstance(contracts, list) else (),
        ungoverned=is_ungoverned(data),
        acel_seconds=_number(data.get("acel_seconds")),
        core_seconds=_number(data.get("core_seconds")),
        approval_seconds=_number(data.get("approval_seconds")),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
