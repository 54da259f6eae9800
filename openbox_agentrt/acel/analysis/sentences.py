"""Parts of sentences about rules: some of many names, and a condition as people write it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ("first_few", "readable")


def first_few(names: Sequence[str]) -> str:
    """Write the first of some names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def readable(said: str) -> str:
    """Write a condition closer to how people do: its form has a blank between any two tokens."""
    for tight in (" . ", " [ ", " ]", " ( ", " )", " ,"):
        said = said.replace(tight, tight.strip() + (" " if tight == " ," else ""))
    return said.replace(",  ", ", ")
