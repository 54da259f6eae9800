"""Words of a fixed vocabulary, such as Core's, however they are written."""

from __future__ import annotations


def word(value: object) -> str:
    """Give a word in lower case with underscores; the empty text for anything that is none."""
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else ""
