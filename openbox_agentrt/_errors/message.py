"""Messages of errors are one line."""

from __future__ import annotations

MESSAGE_LIMIT = 500
"""Characters of a message; attributes keep all of it."""


def one_line(text: str) -> str:
    """Write `text` without line breaks and runs of blanks, cut at `MESSAGE_LIMIT`."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]}..."
