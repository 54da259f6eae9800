"""Digests of texts, those that are no valid Unicode included."""

import hashlib

__all__ = ("text_digest",)


def text_digest(text: str) -> str:
    """Give the SHA-256 of a text in UTF-8, as 64 digits. A lone surrogate counts as what it is."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
