"""Digests of values that a session has seen: it has to know them again, and not what they are."""

from __future__ import annotations

import hashlib
import os

_SIZE = 8


class Digests:
    """
    Make the digests of one session.

    Under a key of its own, so that those of two sessions have nothing to do with each other. Whoever has the
    key, from a snapshot or as the id of a run in a log, can try a value that they think of.

    Attributes:
        key: The key.
    """

    __slots__ = ("key",)

    def __init__(self, key: bytes | None = None) -> None:
        self.key = os.urandom(16) if key is None else key

    def of(self, text: str) -> str:
        """Give the digest of a value, as text."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=_SIZE, key=self.key).hexdigest()
