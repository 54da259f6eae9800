"""Recorded traces: JSON, JSON Lines or YAML, from a file or from standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

from .._plain.strict_json import JsonError, read_json
from ..acel.events import TraceError, read_args, read_outcome, read_stamp, read_tool
from ..acel.outcome import outcome_of
from ..acel.wording import shown
from .events import NOT_RECORDED, Began, Ended, TraceEvent
from .open_calls import OpenCalls
from .source import RecordedFile, TraceSourceError, unreadable

_YAML = (".yaml", ".yml")
_LINES = (".jsonl", ".ndjson")
_MAX_VALUES = 20_000_000
# "prev" of format 2, "prev_hash" of format 1.
_EVIDENCE_KEYS = frozenset(("prev", "prev_hash"))
_KEYS = ("tool", "args", "result", "error", "outcome", "ts", "session_id", "step", "event", "call", "refused")


def is_rows(first: Any) -> bool:
    """Tell whether the first value of a file is of this kind."""
    return isinstance(first, dict) and ("tool" in first or "event" in first) and "jsonrpc" not in first


def holds_rows(path: Path) -> bool:
    """Tell whether a file of YAML is of this kind."""
    try:
        return is_rows(next(read_trace(str(path)), None))
    except TraceSourceError:
        return False


def read_calls(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Read the calls of a trace strictly, each with where it stands.

    A row that says nothing of its outcome has the one that its result says, see `acel.outcome`.

    Raises:
        TraceSourceError: It is missing or holds something else, or a row has a key that nobody understands.
            It names the file and the row.
    """
    shown = "standard input" if name == "-" else name
    for number, row in enumerate(read_trace(name), 1):
        where = f"row {number}"
        if not isinstance(row, dict):
            raise TraceSourceError(f"{where}: must be a mapping, got {type(row).__name__}", path=shown)
        unknown = row.keys() - _KEYS
        if unknown & _EVIDENCE_KEYS:
            problem = "is evidence and no trace; verify --rerun derives its decisions again"
            raise TraceSourceError(problem, path=shown)
        if unknown:
            near = get_close_matches(str(min(unknown)), _KEYS, n=1)
            meant = f"did you mean {near[0]!r}" if near else f"a call has {', '.join(_KEYS)}"
            raise TraceSourceError(f"{where}: unknown key {min(unknown)!r:.80}, {meant}", path=shown)
        if "outcome" not in row and row.get("error") is None and row.get("event") != "began":
            row["outcome"] = outcome_of(row.get("result"))
        yield f"{shown!r} {where}", row


def read_trace(name: str) -> Iterator[Any]:
    """
    Read the rows of a trace, as they stand there.

    JSON Lines are read as they come, whatever their number; the others are read whole.

    Args:
        name: The file, or ``-`` for standard input.

    Raises:
        TraceSourceError: If it is missing or holds something else. It names the file.
    """
    if name == "-":
        yield from _rows(sys.stdin.buffer, "standard input", "")
        return
    try:
        with Path(name).open("rb") as file:
            yield from _rows(file, name, Path(name).suffix.lower())
    except OSError as error:
        raise unreadable(name, error) from error


def _rows(stream: IO[bytes], name: str, suffix: str) -> Iterator[Any]:
    try:
        if suffix in _YAML:
            yield from _yaml(stream.read(), name)
            return
        first = _first_line(stream)
        start = first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if suffix in _LINES or (start == b"{" and suffix != ".json"):
            yield from _lines(first, stream, name)
        elif start in (b"[", b"{", b"") or suffix == ".json":
            yield from _document(first + stream.read(), name)
        else:
            yield from _yaml(first + stream.read(), name)
    except UnicodeDecodeError as error:
        raise TraceSourceError("is not UTF-8", path=name) from error


def _first_line(stream: IO[bytes]) -> bytes:
    """The first line that is not blank, and the blank ones before it."""
    read = b""
    while line := stream.readline():
        read += line
        if line.strip():
            break
    return read


def _lines(first: bytes, stream: IO[bytes], name: str) -> Iterator[Any]:
    number = 0
    for block in (first.splitlines(keepends=True), stream):
        for raw in block:
            number += 1
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                yield _parsed(text, name, f"line {number} ")


def _document(data: bytes, name: str) -> Iterator[Any]:
    rows = _parsed(data.decode("utf-8-sig"), name)
    if not isinstance(rows, list):
        raise TraceSourceError(f"must hold a list of calls, got {type(rows).__name__}", path=name)
    yield from rows


def _yaml(data: bytes, name: str) -> Iterator[Any]:
    from ..acel.rulesfile.errors import ConfigError
    from ..acel.rulesfile.yaml_source import parse_yaml

    try:
        rows, _ = parse_yaml(data.decode("utf-8-sig"), max_values=_MAX_VALUES)
    except ConfigError as error:
        line = "" if error.line is None else f"line {error.line}"
        raise TraceSourceError(f"{line}: {error.problem}", path=name) from error
    if not isinstance(rows, list):
        raise TraceSourceError(f"must hold a list of calls, got {type(rows).__name__}", path=name)
    yield from rows


def _parsed(text: str, name: str, where: str = "") -> Any:
    try:
        # What is no number in JSON is none to a contract either: it is judged, and not a wrong file.
        return read_json(text, finite=False)
    except JsonError as error:
        line = f"line {error.line} " if error.line is not None and error.line > 1 else ""
        raise TraceSourceError(f"{where or line}is not JSON: {error.reason}", path=name) from error


def read_rows(source: RecordedFile) -> Iterator[TraceEvent]:
    """
    Read the calls of a trace of our own, strictly. A row is a call, or with ``event`` one end of it.

    Raises:
        TraceSourceError: A row cannot be read.
    """
    pairs = OpenCalls(source.unread)
    for number, (_, row) in enumerate(read_calls(str(source.path)), 1):
        try:
            yield from _events(source, pairs, number, row)
        except TraceError as error:
            raise TraceSourceError(f"row {number}: {error.problem}", path=str(source.path)) from error
    yield from pairs.rest()


def _events(source: RecordedFile, pairs: OpenCalls, number: int, row: dict[str, Any]) -> Iterator[TraceEvent]:
    kind, session = row.get("event"), row.get("session_id")
    if kind not in (None, "began", "ended"):
        raise TraceError(f"'event' must be began or ended, got {shown(kind)}")
    if not isinstance(row.get("refused", False), bool):
        raise TraceError(f"'refused' must be true or false, got {shown(row['refused'])}")
    name = str(source.path) if session is None else str(session)
    at = None if row.get("ts") is None else read_stamp(row["ts"])
    id = name, row.get("call")
    outcome = read_outcome(row)
    if kind == "ended":
        call = pairs.pop(id)
        if call is None:
            source.unread["an end without its beginning"] += 1
            return
    else:
        call = Began(
            where=f"{source.path} row {number}",
            session=name,
            tool=read_tool(row),
            # Arguments that are null were there, and nobody wrote them down.
            args=None if "args" in row and row["args"] is None else read_args(row),
            at=at,
            refused=row.get("refused", False),
        )
        if kind == "began":
            yield from pairs.add(id, call)
            return
        yield call
    if call.refused:
        # It never ran. What would have become of it nobody knows.
        outcome = "unknown"
    yield Ended(call=call, outcome=outcome, result=row.get("result", NOT_RECORDED), at=at)
