"""A log that was changed and whose chain was made anew, as whoever has the file and no key can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from openbox_agentrt.evidence.canonical import GENESIS_HASH, encode
from openbox_agentrt.evidence.format2.lines import session_text, write_line
from openbox_agentrt.evidence.format2.parsing import LogLine, parse_line

__all__ = ("rechained",)


def rechained(raw: Iterable[bytes], change: Callable[[LogLine, dict[str, Any]], object]) -> tuple[bytes, str]:
    """
    Change lines of a log, and make every hash anew.

    Args:
        raw: The lines, each with its line end.
        change: Is given each line and its body, and changes that. What it returns as ``"drop"`` is left out.

    Returns:
        The log, and the hash of its last line.
    """
    lines: list[bytes] = []
    prev: str | None = None
    first = 0
    for text in raw:
        line = parse_line(text)
        if prev is None:
            prev, first = line.prev, line.seq
        body = line.data()
        if change(line, body) == "drop":
            continue
        data, prev = write_line(
            body=encode(body),
            prev=prev,
            seq=first + len(lines),
            session=session_text(line.session),
            time=line.time,
            type=line.type,
        )
        lines.append(data)
    return b"".join(lines), prev or GENESIS_HASH
