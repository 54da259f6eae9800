"""
The calls that ran: kept as rows, and summed up as a hash.

A violation carries the last rows and the hash of all of them, so it can be tied to a full trace kept
elsewhere without copying it. The hash goes on as rows come, in blocks, so what is asked for after a
hundred thousand calls is there at once.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from ..evidence.freezing import freeze

BLOCK = 256
_encode: Any = None


class Trace:
    """
    The trace of one session.

    Args:
        keep: How many of the latest rows are kept; None for all.
    """

    def __init__(self, keep: int | None = None) -> None:
        # Appending to a deque is atomic, so adding a row takes no lock; whoever reads sorts them in.
        self._new: deque[tuple[dict[str, Any], bytes]] = deque()
        self._rows: deque[dict[str, Any]] = deque(maxlen=keep)
        self._hash = hashlib.sha256()
        self._length = 0
        self._lock = threading.Lock()

    def add(self, step: int, tool: str, args: Mapping[str, Any], result: Any) -> None:
        """A call ran."""
        row = {"step": step, "tool": tool, "args": args, "result": result}
        new = self._new
        new.append((row, encode_row(row)))
        if len(new) >= BLOCK:
            self._sort_in()

    def rows(self) -> list[dict[str, Any]]:
        """The rows that are kept."""
        with self._lock:
            self._drain()
            return list(self._rows)

    def last(self, count: int | None) -> tuple[list[dict[str, Any]], int, str]:
        """The latest `count` rows (None for all), how many there were in all, and the hash of all."""
        with self._lock:
            self._drain()
            rows = list(self._rows) if count is None else list(islice(reversed(self._rows), count))[::-1]
            return rows, self._length, self._hash.hexdigest()

    def resume(self, rows: Iterable[dict[str, Any]], length: int, digest: str) -> None:
        """Go on after a trace of `length` calls with that hash, of which the latest rows are given."""
        with self._lock:
            self._rows.extend(rows)
            self._length = length
            self._hash = hashlib.sha256(f"after {digest}\n".encode()) if length else self._hash

    def _sort_in(self) -> None:
        with self._lock:
            self._drain()

    def _drain(self) -> None:
        block = []
        while self._new:
            row, encoded = self._new.popleft()
            self._rows.append(row)
            block.append(encoded)
        if block:
            self._length += len(block)
            self._hash.update(b"".join(block))


def hash_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """The hash of a whole trace: SHA-256 over its rows as JSON lines with sorted keys."""
    return hashlib.sha256(b"".join(encode_row(row) for row in rows)).hexdigest()


def encode_row(row: Mapping[str, Any]) -> bytes:
    """One row as a JSON line. What JSON cannot hold is written as evidence writes it."""
    global _encode
    if _encode is None:
        import msgspec

        _encode = msgspec.json.Encoder(order="deterministic", enc_hook=freeze).encode
    try:
        return _encode(row) + b"\n"  # type: ignore[no-any-return]  # msgspec is imported when first used
    except Exception:  # noqa: BLE001 - cyclic, too deep, not Unicode: all of it is plain once frozen
        return _encode(freeze(row)) + b"\n"  # type: ignore[no-any-return]  # as above
