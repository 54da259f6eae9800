"""Choose the pieces of a redacted text that are worth looking for elsewhere."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final

SHORTEST_INSIDE: Final = 8
"""A shorter text is replaced only where it is the whole of a text: ``no`` is part of too many words."""

_MAX_COMPARED: Final = 20_000
_WORDS = re.compile(r"\s+|\S+")


def telling_pieces(raw: str, redacted: str) -> list[tuple[str, str]]:
    """List the words that differ between a text and its redaction, if they are telling enough to look for."""
    if len(raw) > _MAX_COMPARED or len(redacted) > _MAX_COMPARED:
        return []
    old, new = _WORDS.findall(raw), _WORDS.findall(redacted)
    found = []
    for _, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        piece, replacement = _trimmed("".join(old[i:j]), "".join(new[k:m]))
        if _is_telling(piece) and piece not in redacted:
            found.append((piece, replacement))
    return found


def _trimmed(piece: str, replacement: str) -> tuple[str, str]:
    start = 0
    while start < min(len(piece), len(replacement)) and piece[start] == replacement[start]:
        start += 1
    piece, replacement = piece[start:], replacement[start:]
    end = 0
    while end < min(len(piece), len(replacement)) and piece[-1 - end] == replacement[-1 - end]:
        end += 1
    return (piece[: len(piece) - end], replacement[: len(replacement) - end])


def _is_telling(piece: str) -> bool:
    has_digit_or_at = any(char.isdigit() or char == "@" for char in piece)
    return len(piece) >= (SHORTEST_INSIDE if has_digit_or_at else 2 * SHORTEST_INSIDE)
