"""
Steps of our own evidence: exact, calls that overlap included.

Where arguments stand with the end of a call, its beginning waits for them, and what came after it waits too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .._plain.freezing import thawed
from .._plain.times import seconds_of
from ..acel.engine.rerun.hidden_parts import has_hidden
from ..acel.events import Outcome
from ..acel.match.keys import About
from ..evidence.format2.parsing import parse_line
from ..evidence.format2.parts import header_of, parts_of, torn_end_of
from ..evidence.reading import Entry, read_entries
from .events import Began, Ended, Left, Resumed, RunEnded, StateSet, TraceEvent
from .source import NothingToJudgeError, RecordedFile

_OUTCOMES: Final[Mapping[str, Outcome]] = {
    "commit": "ok",
    "fail": "failed",
    "abort": "aborted",
    "lose": "unknown",
}
_SAME_CLOCK = 60.0


def read_steps(source: RecordedFile) -> Iterator[TraceEvent]:
    """
    Read the calls of a log with ``record="steps"``.

    Raises:
        NothingToJudgeError: The log holds no steps.
    """
    runs: dict[str, _Run] = {}
    other_clocks, lines = _other_clocks(source), _Lines(source.path)
    steps = 0
    # Of each session that the log tells of, where files that it continues are not there.
    met: set[str] | None = set() if _lacks_files(source.path) else None
    if met is not None:
        source.unread["logs of which earlier files are not there"] += 1
    for entry in read_entries(source.path):
        if entry.type == "gap":
            source.unread["records that the log itself says are missing"] += int(entry.data.get("lost", 0))
        if entry.type != "step":
            continue
        steps += 1
        name = str(entry.data.get("run"))
        run = runs.get(name)
        if run is None:
            session = _name(entry.session_id, name)
            run = runs[name] = _Run(source, session, lines, is_timed=name not in other_clocks)
        if met is not None and name not in met:
            met.add(name)
            yield from run.meet(entry)
        yield from run.take(entry)
        if run.is_idle:
            del runs[name]
    if torn_end_of(source.path):
        source.unread["the last line is cut"] += 1
    if not steps:
        problem = 'is evidence without steps; they are kept with record="steps"'
        raise NothingToJudgeError(problem, path=str(source.path))
    for run in runs.values():
        yield from run.rest()


def _lacks_files(path: Path) -> bool:
    header = header_of(parts_of(path)[0])
    return header is not None and header.get("previous") is not None


def _other_clocks(source: RecordedFile) -> set[str]:
    """Find the sessions whose own time is not that of the log: where a step has none, nobody knows it."""
    found = set()
    for entry in read_entries(source.path):
        at = _seconds(entry.data.get("at")) if entry.type == "step" else None
        if at is not None:
            written = seconds_of(entry.time)
            if written is None or abs(written - at) > _SAME_CLOCK:
                found.add(str(entry.data.get("run")))
    return found


class _Lines:
    """Say where the entries of a log stand, which may be in the files before its last one."""

    def __init__(self, path: Path) -> None:
        self._parts = parts_of(path)
        self._starts = [_first_number(part) for part in self._parts]

    def where(self, number: int) -> str:
        """Give the file and the line of an entry."""
        place = max(0, bisect_right(self._starts, number) - 1)
        return f"{self._parts[place]}:{number - self._starts[place] + 1}"


def _first_number(part: Path) -> int:
    with part.open("rb") as file:
        return parse_line(file.readline()).seq


class _Run:
    """Follow one session's steps. What is known is handed on in the order of the log."""

    def __init__(self, source: RecordedFile, session: str, lines: _Lines, *, is_timed: bool) -> None:
        self._source = source
        self._lines = lines
        self._is_timed = is_timed
        self._session = session
        self._flying: dict[Any, Began] = {}
        self._waiting: deque[TraceEvent | int] = deque()
        self._known: dict[int, Began] = {}

    def take(self, entry: Entry) -> Iterator[TraceEvent]:
        step = entry.data
        # The session's own time stands where its rules needed it; else the line was written right after.
        at = _seconds(step.get("at"))
        at = seconds_of(entry.time) if at is None and self._is_timed else at
        match step.get("e"):
            case "start":
                self._start(step, at)
            case "state":
                self._put(StateSet(session=self._session, values=thawed(step.get("set") or {}), at=at))
            case "restore":
                state = thawed(step.get("state") or {})
                self._put(
                    Resumed(
                        session=self._session,
                        state=state,
                        at=at,
                        of=entry.session_id,
                        left_by=_name(entry.session_id, step["left_by"]) if "left_by" in step else None,
                        mark=step.get("mark"),
                    )
                )
            case "left":
                self._put(Left(session=self._session, mark=str(step.get("mark")), at=at))
            case "end_run":
                self._put(RunEnded(session=self._session, run=str(step.get("of_run")), at=at))
            case "reserve":
                self._reserve(entry, step, at)
            case "commit" | "fail" | "abort" | "lose" as end:
                self._end(step, _OUTCOMES[end], at)
        yield from self._ready()

    def meet(self, entry: Entry) -> Iterator[TraceEvent]:
        """Tell that it went on with memory and state that nobody knows, if it does not begin here."""
        if entry.data.get("e") != "start":
            yield Resumed(session=self._session, state=None, at=_seconds(entry.data.get("at")))

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing of it is under way, so that nothing needs to be remembered."""
        return not (self._flying or self._waiting or self._known)

    def rest(self) -> Iterator[TraceEvent]:
        """Hand on what still waits: calls that have no end in the log."""
        for number, call in list(self._flying.items()):
            self._known.setdefault(number, call)
            self._put(Ended(call=call, outcome="unknown", at=call.at))
        self._flying.clear()
        yield from self._ready()

    def _start(self, step: Mapping[str, Any], at: float | None) -> None:
        # A session is in the log from its first call on, and its state is as old as the session.
        state, written = thawed(step.get("state") or {}), step.get("written") or {}
        times = {name: _seconds(written.get(name)) for name in state}
        for time in sorted({time for time in times.values() if time is not None}):
            values = {name: value for name, value in state.items() if times[name] == time}
            self._put(StateSet(session=self._session, values=values, at=time))
        values = {name: value for name, value in state.items() if times[name] is None}
        self._put(StateSet(session=self._session, values=values, at=at))

    def _reserve(self, entry: Entry, step: Mapping[str, Any], at: float | None) -> None:
        args = step.get("args")
        call = Began(
            where=self._lines.where(entry.number),
            session=self._session,
            tool=str(step.get("tool")),
            args=_seen(args),
            at=at,
            refused=not step.get("allowed"),
            deferred=step.get("deferred", ()),
            about=About(subject=thawed(step.get("subject") or {}), run=step.get("of_run") or ""),
        )
        if call.refused:
            self._put(call)
            # It never ran. What would have become of it nobody knows.
            self._put(Ended(call=call, outcome="unknown", at=at))
            return
        self._flying[step.get("step")] = call
        if args is None:
            self._waiting.append(int(step["step"]))
        else:
            self._put(call)

    def _end(self, step: Mapping[str, Any], outcome: Outcome, at: float | None) -> None:
        number = step.get("step")
        call = self._flying.pop(number, None)
        if call is None:
            self._source.unread["an end without its beginning"] += 1
            return
        if number in self._waiting:
            late = None if step.get("shown") else _seen(step.get("args"))
            call = self._known[int(step["step"])] = replace(call, args=late)
        self._put(
            Ended(
                call=call,
                outcome=outcome,
                at=at,
                args=_seen(step.get("final")),
                measured=thawed(step["measured"]) if "measured" in step else None,
            )
        )

    def _put(self, event: TraceEvent) -> None:
        self._waiting.append(event)

    def _ready(self) -> Iterator[TraceEvent]:
        while self._waiting:
            event = self._waiting[0]
            if isinstance(event, int):
                if event not in self._known:
                    return
                event = self._known.pop(event)
            self._waiting.popleft()
            yield event


def has_moved(path: Path) -> bool:
    """Tell whether sessions of a log may have gone on from where another worker left them."""
    with path.open("rb") as file:
        return any(b'"left_by"' in line for line in file)


def _name(session: str | None, run: str) -> str:
    return f"{session} ({run})" if session else f"session {run}"


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _seen(args: Any) -> dict[str, Any] | None:
    """Take recorded arguments, if they are what contracts saw: neither cut nor redacted."""
    if not isinstance(args, dict) or has_hidden(args):
        return None
    return dict(thawed(args))
