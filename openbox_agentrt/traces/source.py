"""One recorded file: its lines or its document, and an account of what in it could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._picklable import PicklableError
from .._plain.strict_json import JsonError, read_json

__all__ = ("NothingToJudgeError", "RecordedFile", "TraceSourceError", "unreadable")

_MAX_DOCUMENT = 2**30


class TraceSourceError(PicklableError, ValueError):
    """
    A recording cannot be read at all. Nothing of it was judged.

    Attributes:
        path: The file.
        problem: What is wrong, and what to do.
    """

    def __init__(self, problem: str, *, path: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path!r} {problem}")


class NothingToJudgeError(TraceSourceError):
    """A recording can be read, and holds no calls that could be judged."""


def unreadable(path: str, error: OSError) -> TraceSourceError:
    """Give the error to raise where the system lets nobody read a recording."""
    return TraceSourceError(f"could not be read ({(error.strerror or 'error').lower()})", path=path)


class RecordedFile:
    """
    Read one file, in any of the shapes that recordings have.

    Attributes:
        path: The file.
        unread: What could not be read, by reason.
    """

    def __init__(self, path: Path, unread: Counter[str]) -> None:
        self.path = path
        self.unread = unread

    def where(self, number: int) -> str:
        """Say where something stands, for people."""
        return f"{self.path}:{number}"

    def objects(self) -> Iterator[tuple[int, Any]]:
        """
        Give the JSON values of the file, each with its line: a line each, or the whole file as one.

        A list is given value by value. What is no JSON is counted, and the rest is read.

        Raises:
            TraceSourceError: Nothing in it is JSON.
        """
        if self._is_lines():
            yield from self._lines()
            return
        document = self._document()
        if isinstance(document, list):
            yield from ((1, value) for value in document)
        else:
            yield 1, document

    def first(self) -> Any:
        """Give the first JSON value, to see by it what the file is; None if there is none."""
        try:
            return next((value for _, value in RecordedFile(self.path, Counter()).objects()), None)
        except TraceSourceError:
            return None

    def _is_lines(self) -> bool:
        """Tell whether the first line that is not blank is JSON by itself, and no list."""
        with self.path.open("rb") as file:
            for raw in file:
                if raw.strip():
                    try:
                        return not isinstance(read_json(raw, finite=False), list)
                    except JsonError:
                        # A document over several lines, or lines of which the first is damaged.
                        return raw.lstrip(b"\xef\xbb\xbf \t")[:1] == b"{" and raw.rstrip()[-1:] == b"}"
        return True

    def _lines(self) -> Iterator[tuple[int, Any]]:
        with self.path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                text = raw.strip()
                if not text or text == b"\xef\xbb\xbf":
                    continue
                try:
                    yield number, read_json(text, finite=False)
                except JsonError as error:
                    cut = not raw.endswith(b"\n")
                    self.unread["the last line is cut" if cut else f"no JSON: {_kind(error)}"] += 1

    def _document(self) -> Any:
        if self.path.stat().st_size > _MAX_DOCUMENT:
            raise TraceSourceError("is too large to be read as one document", path=str(self.path))
        try:
            return read_json(self.path.read_bytes(), finite=False)
        except JsonError as error:
            line = "" if error.line is None else f" (line {error.line})"
            raise TraceSourceError(f"is no JSON{line}: {error.reason}", path=str(self.path)) from error


def _kind(error: JsonError) -> str:
    # A count by reason is of use only if equal reasons are equal.
    return "a name is there twice" if error.repeated is not None else error.reason.split(" in column")[0]
