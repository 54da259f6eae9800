"""
Logs in files and folders: one file for each process is normal, so questions are put to many.

A folder stands for the logs in it. Of the parts of one log, the last stands for all.
"""

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .errors import UnreadableLogError
from .format2.parts import header_of, is_put_away, parts_of
from .reading import Entry, format_of, read_entries

_BUNDLE = b'"bundle_hash"'
_EMPTY_LIST = b"[] \t\r\n\xef\xbb\xbf"
_BESIDE = frozenset((".head", ".lock", ".pub", ".checkpoint"))


def logs_in(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """
    Find the logs that files and folders stand for, each once.

    Args:
        paths: Files, which have to be logs, and folders, in which other files are passed over.

    Raises:
        UnreadableLogError: If a file is missing or is no evidence log, or a folder has none.
    """
    found: dict[Path, Path] = {}
    for given in paths:
        path = Path(given).expanduser()
        for log in _in_folder(path) if path.is_dir() else [path]:
            found.setdefault(log.resolve(), log)
    # What a later part stands for is not a log of its own.
    covered = continued_files(list(found.values()))
    return [log for resolved, log in found.items() if resolved not in covered]


def continued_files(paths: Sequence[Path]) -> set[Path]:
    """Find the files of logs, resolved, that others of these files continue."""
    continued: set[Path] = set()
    # The last file of a log has a name that comes after all others, and leads to each of them.
    for path in reversed(paths):
        try:
            if path.resolve() not in continued:
                continued.update(part.resolve() for part in parts_of(path)[:-1])
        except OSError:
            # It is told when it is its turn to be read.
            continue
    return continued


def merged_entries(logs: Iterable[Path]) -> Iterator[tuple[str, Entry]]:
    """
    Give the entries of several logs by their time, each with the name of its log. They are not verified.

    Raises:
        UnreadableLogError: If a file cannot be read, or at an entry that is none.
    """
    # The order within a log is its own, whatever its clock did.
    return heapq.merge(*map(_named, logs), key=lambda pair: pair[1].time)


def _named(log: Path) -> Iterator[tuple[str, Entry]]:
    name = str(log)
    for entry in read_entries(log):
        yield name, entry


def _in_folder(folder: Path) -> list[Path]:
    found = [file for file in sorted(folder.rglob("*")) if file.is_file() and _is_log(file)]
    last: dict[object, Path] = {}
    alone = []
    for file in found:
        header = header_of(file)
        if header is None:
            alone.append(file)
        elif not is_put_away(file):
            last[header.get("log_id"), "live", file] = file
        else:
            # Parts are named by their numbers, so the latest of a log comes last.
            last[header.get("log_id"), "parts", file.parent] = file
    if not found:
        raise UnreadableLogError("folder holds no evidence log", path=str(folder))
    return [*alone, *last.values()]


def _is_log(file: Path) -> bool:
    if file.suffix in _BESIDE or file.name.startswith("."):
        return False
    if file.suffix == ".json":
        try:
            return format_of(file) == 1 and _has_bundles(file)
        except (UnreadableLogError, OSError):
            return False
    try:
        return header_of(file) is not None
    except OSError:
        return False


def _has_bundles(file: Path) -> bool:
    """Tell a log of format 1, also one that was cut, from another list, such as a trace."""
    text = file.read_bytes()
    return _BUNDLE in text or not text.strip(_EMPTY_LIST)
