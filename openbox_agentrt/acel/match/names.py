"""
Names of tools: when two are the same.

Names are compared in NFC, so that the two ways to write an accented letter are one name. Nothing else is
folded: `Pay` and `pay` are two tools. What only looks the same is reported, see `odd_names`.
"""

from __future__ import annotations


def normal_name(name: str) -> str:
    """Bring a name into the form in which it is compared."""
    if name.isascii():
        return name
    # Loaded here, as wherever few texts need it: each hook is a process that starts.
    import unicodedata

    return unicodedata.normalize("NFC", name)
