"""Recorded traces: JSON, JSON Lines or YAML, from a file or from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .running import InputError

__all__ = ("read_trace",)

_YAML = (".yaml", ".yml")
_LINES = (".jsonl", ".ndjson")
_MAX_VALUES = 20_000_000


def read_trace(name: str) -> Iterator[Any]:
    """
    The rows of a trace, as they stand there.

    JSON Lines are read as they come, whatever their number; the others are read whole.

    Args:
        name: The file, or ``-`` for standard input.

    Raises:
        InputError: If it is missing or holds something else. It names the file.
    """
    if name == "-":
        yield from _rows(sys.stdin.buffer, "standard input", "")
        return
    try:
        with Path(name).open("rb") as file:
            yield from _rows(file, name, Path(name).suffix.lower())
    except OSError as error:
        raise InputError(f"could not read {name!r} ({(error.strerror or 'error').lower()})") from error


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
        raise InputError(f"{name!r} is not UTF-8") from error


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
                yield _parsed(text, f"{name!r} line {number}")


def _document(data: bytes, name: str) -> Iterator[Any]:
    rows = _parsed(data.decode("utf-8-sig"), repr(name))
    if not isinstance(rows, list):
        raise InputError(f"{name!r} must hold a list of calls, got {type(rows).__name__}")
    yield from rows


def _yaml(data: bytes, name: str) -> Iterator[Any]:
    from ..acel.rulesfile.errors import ConfigError
    from ..acel.rulesfile.yaml_source import parse_yaml

    try:
        rows, _ = parse_yaml(data.decode("utf-8-sig"), max_values=_MAX_VALUES)
    except ConfigError as error:
        line = "" if error.line is None else f" line {error.line}"
        raise InputError(f"{name!r}{line}: {error.problem}") from error
    if not isinstance(rows, list):
        raise InputError(f"{name!r} must hold a list of calls, got {type(rows).__name__}")
    yield from rows


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f" line {error.lineno}" if error.lineno > 1 else ""
        raise InputError(f"{where}{line} is not JSON: {error.msg.lower()}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: a number is too long, or it is nested too deeply") from error
