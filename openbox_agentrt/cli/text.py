"""Text for a terminal. What is shown comes from logs and traces, so from whoever talked to the agent."""

from __future__ import annotations

import json
import unicodedata

__all__ = ("compact_json", "printable")

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    """Text in which nothing moves the cursor, hides, or turns around what is shown."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _UNSAFE
        else character
        for character in text
    )


def compact_json(value: object) -> str:
    """A value in one line of JSON that a terminal can show."""
    return printable(
        json.dumps(value, sort_keys=True, separators=(", ", ": "), default=str, ensure_ascii=False)
    )
