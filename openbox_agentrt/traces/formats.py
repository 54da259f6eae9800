"""The formats in which recordings come, and which one a file has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..evidence.format2.parts import header_of, parts_of
from ..evidence.logs import continued_files
from .claude_code import is_claude_code, read_claude_code
from .counts import Found
from .events import Began, Ended, TraceEvent
from .found_files import found_files
from .in_time import in_time
from .mcp_lines import is_mcp, read_mcp
from .openai_messages import is_openai, read_openai
from .otlp import is_otlp, read_otlp
from .rows import holds_rows, is_rows, read_rows
from .source import NothingToJudgeError, RecordedFile, TraceSourceError, unreadable
from .steps import has_moved, read_steps

__all__ = ("FORMATS", "Recordings")


class _Format(NamedTuple):
    """Say how a file of one format is told, and read."""

    is_it: Callable[[Any], bool]
    read: Callable[[RecordedFile], Iterator[TraceEvent]]


FORMATS: Final = {
    "evidence": _Format(lambda first: False, read_steps),
    "otlp": _Format(is_otlp, read_otlp),
    "claude-code": _Format(is_claude_code, read_claude_code),
    "mcp": _Format(is_mcp, read_mcp),
    "rows": _Format(is_rows, read_rows),
    "openai": _Format(is_openai, read_openai),
}


class Recordings:
    """
    Read recorded calls out of files and folders, one file after the other.

    Args:
        paths: Files, which have to be recordings, and folders, in which other files are counted.
        format: A name of `FORMATS`, or "auto".
        by_file: Take all calls of a file for one session, whatever it says.

    Attributes:
        files: How many files were read, by format.
        unread: What could not be read, by reason.
        unjudged: Why files of folders cannot be judged, which could be read.
    """

    def __init__(self, paths: Iterable[str], *, format: str = "auto", by_file: bool = False) -> None:
        self.files: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.unjudged: Found[NothingToJudgeError] = Found()
        self._paths = list(paths)
        self._format = format
        self._by_file = by_file

    def events(self) -> Iterator[TraceEvent]:
        """
        Give what happened, in the order of each file. Logs of workers between which sessions moved are put
        into the order of time.

        Raises:
            TraceSourceError: A file that was named is missing, has another format or holds no calls.
        """
        return chain.from_iterable(self.each())

    def each(self) -> Iterator[Iterator[TraceEvent]]:
        """Give the same by file; those logs together."""
        moved: list[Path] = []
        found = list(found_files(self._paths, self.unread))
        continued = continued_files([path for path, _ in found])
        for path, named in found:
            if path.resolve() in continued:
                # It is read with the file that continues it.
                continue
            try:
                kind = self._kind(path, named=named)
            except NothingToJudgeError as error:
                self._cannot_judge(error, named=named)
                continue
            if kind is None:
                self.unread["files that are no recording"] += 1
                continue
            self.files[kind] += 1
            if kind == "evidence" and not self._by_file and any(map(has_moved, parts_of(path))):
                moved.append(path)
                continue
            events = self._read(path, kind, named=named)
            yield _in_session(str(path), events) if self._by_file else events
        logs = [read_steps(RecordedFile(path, self.unread)) for path in moved]
        yield in_time(logs) if len(moved) > 1 else chain.from_iterable(logs)

    def _read(self, path: Path, kind: str, *, named: bool) -> Iterator[TraceEvent]:
        try:
            yield from FORMATS[kind].read(RecordedFile(path, self.unread))
        except NothingToJudgeError as error:
            self._cannot_judge(error, named=named)
            self.files -= Counter((kind,))

    def _cannot_judge(self, error: NothingToJudgeError, *, named: bool) -> None:
        # What was named is meant; in a folder there is all sorts.
        if named:
            raise error
        self.unjudged.add(error)

    def _kind(self, path: Path, *, named: bool) -> str | None:
        try:
            known = "evidence" if header_of(path) is not None else _told_by(path, named=named)
        except OSError as error:
            raise unreadable(str(path), error) from error
        if self._format not in ("auto", known) and known is not None and named:
            raise TraceSourceError(f"is no {self._format}; say --format {known}", path=str(path))
        if known is None and named and self._format == "auto":
            problem = f"is no recording that is known; --format takes {', '.join(FORMATS)}"
            if RecordedFile(path, Counter()).first() is None:
                problem = "holds no JSON that can be read: it is empty, packed, cut or not UTF-8"
            raise TraceSourceError(problem, path=str(path))
        return known if self._format == "auto" else self._format if named or known == self._format else None


def _told_by(path: Path, *, named: bool) -> str | None:
    if path.suffix.lower() in (".yaml", ".yml"):
        # In a folder there is all sorts of it, such as the rules.
        return "rows" if named or holds_rows(path) else None
    first = RecordedFile(path, Counter()).first()
    if isinstance(first, dict) and "bundle_hash" in first:
        raise NothingToJudgeError("is evidence that holds violations only, and no calls", path=str(path))
    return next((name for name, kind in FORMATS.items() if kind.is_it(first)), None)


def _in_session(name: str, events: Iterator[TraceEvent]) -> Iterator[TraceEvent]:
    renamed: dict[Began, Began] = {}
    for event in events:
        if isinstance(event, Ended):
            yield replace(event, call=renamed.pop(event.call))
            continue
        moved = replace(event, session=name)
        if isinstance(event, Began) and isinstance(moved, Began):
            renamed[event] = moved
        yield moved
