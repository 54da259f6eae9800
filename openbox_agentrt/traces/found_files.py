"""The files that may be recordings, each of them once: those that were named, and those in folders."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from .source import TraceSourceError, unreadable

__all__ = ("found_files",)

_SUFFIXES = frozenset((".json", ".jsonl", ".ndjson", ".yaml", ".yml"))


def found_files(paths: Iterable[str], unread: Counter[str]) -> Iterator[tuple[Path, bool]]:
    """
    Find files, and say of each whether it was named.

    A file that was given twice, by whatever names, is one. What in a folder cannot be read is counted.

    Raises:
        TraceSourceError: One that was named is missing or no file, or a folder holds none.
    """
    seen: set[tuple[int, int]] = set()
    for path, named in _listed(paths, unread):
        try:
            status = path.stat()
        except OSError as error:
            raise unreadable(str(path), error) from error
        if not stat.S_ISREG(status.st_mode):
            problem = "is no file: write what comes out of a pipe to one, since recordings are read twice"
            raise TraceSourceError(problem, path=str(path))
        if (status.st_dev, status.st_ino) in seen:
            unread["files that were given twice"] += 1
            continue
        seen.add((status.st_dev, status.st_ino))
        yield path, named


def _listed(paths: Iterable[str], unread: Counter[str]) -> Iterator[tuple[Path, bool]]:
    for name in paths:
        path = Path(name).expanduser()
        if not path.is_dir():
            yield path, True
            continue
        inside = sorted(_inside(path, unread), key=_by_name)
        if not inside:
            raise TraceSourceError("holds no files", path=name)
        for file in inside:
            if file.suffix.lower() in _SUFFIXES:
                yield file, False
            else:
                unread["files with another ending"] += 1


def _by_name(path: Path) -> list[str | int]:
    # A log that is rotated has a tenth file after its ninth, and sessions that go on in it.
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def _inside(folder: Path, unread: Counter[str]) -> Iterator[Path]:
    def count(_: OSError) -> None:
        unread["folders that could not be read"] += 1

    for found, folders, names in os.walk(folder, onerror=count):
        links = sum(os.path.islink(os.path.join(found, name)) for name in folders)
        if links:
            # One that leads back would be read without end.
            unread["links to folders, which are not followed"] += links
        for path in (Path(found, name) for name in names if not name.startswith(".")):
            if path.is_file():
                yield path
            else:
                unread["links to nothing, and what is no file"] += 1
