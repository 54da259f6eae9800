"""
The files of a log.

A log that grows is continued in a new file: ``evidence.jsonl`` becomes ``evidence.000001.jsonl``, and a new
``evidence.jsonl`` begins, whose header names the file before it. The chain runs through all of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UnreadableLogError
from .lines import MAX_LINE
from .parsing import parse_line


def part_path(log: Path, part: int) -> Path:
    """Give the file in which a part is put away once the next one begins."""
    return log.with_name(f"{log.stem}.{part:06d}{log.suffix}")


def is_put_away(path: Path) -> bool:
    """Say whether a file has the name under which its part is put away."""
    name, _, number = path.stem.rpartition(".")
    part = (header_of(path) or {}).get("part")
    return bool(name) and isinstance(part, int) and number == f"{part:06d}"


def header_of(path: Path) -> dict[str, Any] | None:
    """The header of a file, or None if its first line is none."""
    with path.open("rb") as file:
        raw = file.readline(MAX_LINE)
    try:
        line = parse_line(raw)
    except ValueError:
        return None
    return line.data() if line.type == "header" else None


def parts_of(path: Path) -> list[Path]:
    """The files of a log up to this one, in order, as far back as they are there."""
    parts = [path]
    seen = {path.name}
    while True:
        previous = (header_of(parts[0]) or {}).get("previous")
        name = previous.get("file") if isinstance(previous, dict) else None
        # A header is data: it must not lead out of the folder, or in circles.
        if not isinstance(name, str) or name in seen or Path(name).name != name or "\0" in name:
            return parts
        before = path.with_name(name)
        if not before.is_file():
            return parts
        seen.add(name)
        parts.insert(0, before)


def torn_end_of(path: Path) -> int:
    """Count the bytes after the last line end: what a crash in the middle of a write leaves."""
    size = path.stat().st_size
    end = size
    with path.open("rb") as file:
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return size - (start + found + 1)
            end = start
    return size


def iterate_lines(path: Path, *, skip_torn: bool) -> Iterator[bytes]:
    """
    The lines of a file, with their ends.

    Args:
        path: The file.
        skip_torn: Leave out a last line that has no end.

    Raises:
        UnreadableLogError: If a line is longer than any that is written.
    """
    with path.open("rb") as file:
        while raw := file.readline(MAX_LINE):
            if raw.endswith(b"\n"):
                yield raw
            elif len(raw) == MAX_LINE:
                raise UnreadableLogError("line is too long for an evidence log", path=str(path))
            elif not skip_torn:
                yield raw
