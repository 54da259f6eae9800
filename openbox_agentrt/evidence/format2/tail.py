"""
Going on with a log at its end, at a cost that does not grow with it.

The head names the hash of the last line, and that hash covers every line before. So a log whose last line
has this hash is continued without a look at the others: one that was changed there does not fit its own hash
or the next line's, before and after, and nothing that is written here vouches for it. `verify` finds it.
"""

from __future__ import annotations

import os

from ..canonical import decoded, sha256_hex
from .heads import Head
from .writing import LogIdentity, LogWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_CHUNK = 64 << 10


def continue_at_end(
    log: str, head: Head, wanted: LogIdentity, settings: Mapping[str, Any]
) -> LogWriter | None:
    """
    Continue a log that ends with the line which its head names.

    Args:
        log: Where it is.
        head: Its head, whose signature was checked.
        wanted: What the header of a new log would say.
        settings: The settings of `LogWriter`.

    Returns:
        The writer; None if the log ends otherwise. What that means is for a look at all of it.
    """
    try:
        header, last = _ends_of(log)
    except FileNotFoundError:
        return None
    if not _is_line_of(last, head.hash) or header.get("log_id") != head.log_id:
        return None
    if header.get("part") != head.part:
        return None
    kept = wanted.continuing(head.log_id, header)
    writer = LogWriter(log, kept, part=head.part, count=head.count, prev=head.hash, **settings)
    writer.continue_file(torn=0)
    writer.note_resumed(wanted, found=head.count, sealed=head.count)
    return writer


def _ends_of(log: str) -> tuple[Mapping[str, Any], bytes]:
    """Read what the header of a file says, and its last line."""
    with open(log, "rb") as file:
        header = _said_by(file.readline(_CHUNK))
        size, length = file.seek(0, os.SEEK_END), _CHUNK
        while True:
            file.seek(max(0, size - length))
            data = file.read(length)
            start = data.rfind(b"\n", 0, -1)
            if start >= 0 or length >= size:
                return header, data[start + 1 :]
            length *= 4


def _said_by(header: bytes) -> Mapping[str, Any]:
    try:
        line = decoded(header)
    except ValueError:
        return {}
    body = line.get("body") if isinstance(line, dict) else None
    return body if isinstance(body, dict) else {}


def _is_line_of(line: bytes, digest: str) -> bool:
    before, own, after = line.rpartition(f',"hash":"{digest}"'.encode())
    return bool(own) and after.endswith(b"\n") and sha256_hex(before + after[:-1]) == digest
