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
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeAlias

from ..._plain.freezing import freeze

BLOCK = 256

Row: TypeAlias = tuple[int, str, Mapping[str, Any], Any]


class Trace:
    """
    Keep the calls of one session that ran.

    Args:
        keep: How many of the latest rows are kept; None for all.
    """

    __slots__ = ("_hash", "_keep", "_length", "_lock", "_new", "_rows")

    def __init__(self, keep: int | None = None) -> None:
        # Appending to a list is atomic, so adding a row takes no lock; whoever reads sorts them in.
        self._new: list[tuple[Row, bytes]] = []
        # A session that calls nothing has neither of the two.
        self._rows: deque[Row] | None = None
        self._hash: Any = None
        self._keep = keep
        self._length = 0
        self._lock = threading.Lock()

    def add(self, step: int, tool: str, args: Mapping[str, Any], result: Any) -> None:
        """Add a call that ran."""
        row = (step, tool, args, result)
        try:
            line = _encode(row)
        except Exception:  # noqa: BLE001 - cyclic, too deep, not Unicode: all of it is plain once frozen
            line = _encode(freeze(row))
        new = self._new
        new.append((row, line))
        # If somebody is at it already, this call does not wait for the hash.
        if len(new) >= BLOCK and self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def rows(self) -> list[dict[str, Any]]:
        """List the rows that are kept."""
        with self._lock:
            return [_as_dict(row) for row in self._drain()]

    def last(self, count: int | None) -> tuple[list[dict[str, Any]], int, str]:
        """Give the latest `count` rows (None for all), how many there were in all, and the hash of all."""
        with self._lock:
            kept = self._drain()
            rows = list(kept if count is None else islice(reversed(kept), count))
            if count is not None:
                rows.reverse()
            return [_as_dict(row) for row in rows], self._length, self._hash.hexdigest()

    def resume(self, rows: Iterable[dict[str, Any]], length: int, digest: str) -> None:
        """Go on after a trace of `length` calls with that hash, of which the latest rows are given."""
        with self._lock:
            self._drain().extend((row["step"], row["tool"], row["args"], row["result"]) for row in rows)
            self._length = length
            self._hash = hashlib.sha256(f"after {digest}\n".encode()) if length else self._hash

    def _drain(self) -> deque[Row]:
        if self._rows is None:
            self._rows = deque(maxlen=self._keep)
            self._hash = hashlib.sha256()
        new = self._new
        block = new[:]
        if block:
            del new[: len(block)]
            self._rows.extend(row for row, _ in block)
            self._length += len(block)
            self._hash.update(b"\n".join([line for _, line in block]) + b"\n")
        return self._rows


def hash_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """
    Hash a whole trace, given as rows of ``{"step", "tool", "args", "result"}``.

    It is SHA-256 over one line of JSON per row: ``[step, tool, args, result]`` with sorted keys and no
    spaces, each line ended by a line feed. What JSON cannot hold is written as evidence writes it.
    """
    trace = Trace()
    for row in rows:
        trace.add(row["step"], row["tool"], row["args"], row["result"])
    return trace.last(0)[2]


def _first_encode(row: Any) -> bytes:
    # msgspec is loaded by the first row, not by importing this module.
    global _encode
    import msgspec

    _encode = msgspec.json.Encoder(order="deterministic", enc_hook=freeze).encode
    return _encode(row)


def _as_dict(row: Row) -> dict[str, Any]:
    step, tool, args, result = row
    return {"step": step, "tool": tool, "args": args, "result": result}


_encode: Callable[[Any], bytes] = _first_encode
