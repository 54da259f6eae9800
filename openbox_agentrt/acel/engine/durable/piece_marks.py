"""A mark of all that a session remembers, by which what one worker left is told from anything else."""

from __future__ import annotations

from collections.abc import Mapping

from ...._plain.digest import sha256, text_digest

_MOST = 2**256


class PieceMarks:
    """
    Keep a digest of all pieces of a session's memory. A change costs no more than its piece.

    Every piece has a hash of its own, and the digest is of their sum: it does not depend on their order.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}
        self._sum = 0

    def reset(self, pieces: Mapping[str, str | None]) -> None:
        """Begin anew with these pieces."""
        self._hashes, self._sum = {}, 0
        self.put(pieces)

    def put(self, pieces: Mapping[str, str | None]) -> None:
        """Take note of pieces that have changed; None for one that is no more."""
        for name, text in pieces.items():
            made = 0 if text is None else _hashed(name, text)
            self._sum += made - self._hashes.pop(name, 0)
            if made:
                self._hashes[name] = made

    def mark(self) -> str:
        """Give the digest of all pieces as they are now."""
        digest: str = sha256((self._sum % _MOST).to_bytes(32, "big")).hexdigest()
        return digest


def _hashed(name: str, text: str) -> int:
    return int(text_digest(f"{len(name)}:{name}{text}"), 16)
