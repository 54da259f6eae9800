"""
The calls that ran: kept as rows, and summed up as a hash.

A violation carries the last rows and the hash of all of them, so it can be tied to a full trace kept
elsewhere without copying it. The hash goes on as rows come, in blocks, so what is asked for after a
hundred thousand calls is there at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeAlias

from ...._plain.bounding import bounded, short_text, weight
from ...._plain.codec import codec
from ...._plain.digest import sha256
from ...._plain.freezing import freeze, marked_again
from ...._primitives import allocate_lock

BLOCK = 256
_SMALL_BLOCK = 4
LARGE_ROW = 16_384
"""Rows of more bytes are not kept whole where not all rows are kept ..."""
KEPT_ROOM = 4_000
"""... but with what their arguments may weigh then, and their result, see `_plain.bounding`."""
ROW_ROOM = 1_500
"""What the arguments of one row in a record may weigh, and its result, see `_plain.bounding`."""

# Stands for the line of a row that is encoded when somebody asks.
_LATER = b""

Row: TypeAlias = tuple[int, str, Mapping[str, Any], Any]


class _CutRow(tuple[int, str, Any, Any]):
    """Keep of a large row what `bounded` leaves."""

    __slots__ = ()


class _Shown:
    """Keep what of a row goes into records."""

    __slots__ = ("_digest", "_row", "_shown")

    def __init__(self, row: Row) -> None:
        self._row = row
        self._shown: tuple[dict[str, Any], int] | None = None
        self._digest: tuple[dict[str, Any], int] | None = None

    def within(self, room: int | None) -> tuple[dict[str, Any], int]:
        """Give the row as records show it, or where that does not fit by digest, and what that weighs."""
        # Many refusals may follow one large call: each of them refers to what was made for the first.
        if self._shown is None:
            step, tool, args, result = self._row
            row = {
                "step": step,
                "tool": freeze(short_text(tool)),
                "args": freeze(args),
                "result": freeze(result),
            }
            self._shown = _cut(row, ROW_ROOM)
        if room is None or self._shown[1] <= room:
            return self._shown
        if self._digest is None:
            self._digest = _cut(self._shown[0], 0)
        return self._digest


_NONE_SHOWN: Mapping[int, _Shown] = {}


def _cut(row: dict[str, Any], room: int) -> tuple[dict[str, Any], int]:
    cut = {**row, "args": bounded(row["args"], room), "result": bounded(row["result"], room)}
    return cut, weight(cut)


class Trace:
    """
    Keep the calls of one session that ran.

    Args:
        keep: How many of the latest rows are kept, and large ones not whole; None for all.
    """

    __slots__ = ("_block", "_hash", "_is_late", "_keep", "_length", "_lock", "_new", "_rows", "_shown")

    def __init__(self, keep: int | None = None) -> None:
        # Appending to a list is atomic, so adding a row takes no lock; whoever reads sorts them in.
        self._new: list[tuple[Row, bytes]] = []
        # A session that calls nothing has neither of the two.
        self._rows: deque[Row] | None = None
        self._hash: Any = None
        # Of the latest rows, by their numbers, once a record has shown them.
        self._shown: Mapping[int, _Shown] = _NONE_SHOWN
        self._keep = keep
        # Who keeps no rows holds few until they are hashed, of however many sessions at once.
        self._block = BLOCK if keep != 0 else _SMALL_BLOCK
        self._is_late = False
        self._length = 0
        self._lock = allocate_lock()

    def put_off(self) -> None:
        """
        Encode rows when the hash is asked for, and not when they are added.

        It is for whoever adds values that nobody changes afterwards, and may end before there is a question.
        """
        self._is_late = True

    def add(self, step: int, tool: str, args: Mapping[str, Any], result: Any) -> None:
        """Add a call that ran."""
        row = (step, tool, args, result)
        try:
            line = _LATER if self._is_late else _encode(row)
        except Exception:  # noqa: BLE001 - as `_line_of`, and in most calls one step less
            line = _line_of(row)
        new = self._new
        new.append((row, line))
        # If somebody is at it already, this call does not wait for the hash.
        if (len(new) >= self._block or len(line) > LARGE_ROW) and self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def rows(self) -> list[dict[str, Any]]:
        """List the rows that are kept."""
        with self._lock:
            return [_as_dict(row) for row in self._drain()]

    def whole(self) -> tuple[list[dict[str, Any]], int, str]:
        """
        Give the rows that are kept, how many there were in all, and the hash of all, at one moment.

        A row that was cut says so, so that what stands in it is known again for marks.
        """
        with self._lock:
            rows = [_as_dict(row) | ({"cut": True} if type(row) is _CutRow else {}) for row in self._drain()]
            return rows, self._length, self._hash.hexdigest()

    def mark(self) -> tuple[int, str]:
        """Say how many rows there were in all, and the hash of all, at one moment."""
        with self._lock:
            self._drain()
            return self._length, self._hash.hexdigest()

    def last(self, count: int | None, *, room: int | None = None) -> tuple[list[dict[str, Any]], int, str]:
        """
        Give the latest rows, how many there were in all, and the hash of all.

        The rows are plain data, frozen when first asked for and the same ones every time. A large one is cut.

        Args:
            count: How many rows; None for all.
            room: What they may weigh together: the latest are whole, those before them go by digest, and
                what does not fit even so is left out.
        """
        with self._lock:
            latest = islice(reversed(self._drain()), count)
            oldest = 0 if count is None else self._length - count
            seen = {number: shown for number, shown in self._shown.items() if number > oldest}
            rows: list[dict[str, Any]] = []
            for number, kept in zip(range(self._length, 0, -1), latest, strict=False):
                if number not in seen:
                    seen[number] = _Shown(kept)
                row, size = seen[number].within(room)
                if room is not None:
                    if size > room:
                        break
                    room -= size
                rows.append(row)
            rows.reverse()
            self._shown = seen
            return rows, self._length, self._hash.hexdigest()

    def resume(self, rows: Iterable[dict[str, Any]], length: int, digest: str) -> None:
        """Go on after a trace of `length` calls with that hash, of which the latest rows are given."""
        with self._lock:
            self._drain().extend(map(_resumed, rows))
            self._shown = _NONE_SHOWN
            self._length = length
            self._hash = sha256(f"after {digest}\n".encode()) if length else self._hash

    def _drain(self) -> deque[Row]:
        new = self._new
        if self._rows is None:
            if len(new) >= BLOCK:
                # OpenSSL, which is several times as quick, and takes a while to load: not for a few calls.
                import hashlib  # noqa: F401
            self._rows = deque(maxlen=self._keep)
            self._hash = sha256()
        block = new[:]
        if block:
            del new[: len(block)]
            lines = [line or _line_of(row) for row, line in block]
            rows = [row for row, _ in block]
            if self._keep is not None and max(map(len, lines)) > LARGE_ROW:
                rows = list(map(_kept, rows, lines))
            self._rows.extend(rows)
            self._length += len(block)
            self._hash.update(b"\n".join(lines) + b"\n")
        return self._rows


def _kept(row: Row, line: bytes) -> Row:
    if len(line) <= LARGE_ROW:
        return row
    step, tool, args, result = row
    # A mapping stays one.
    kept: Any = bounded(freeze(args), KEPT_ROOM)
    return _CutRow((step, short_text(tool), kept, bounded(freeze(result), KEPT_ROOM)))


def _resumed(row: Mapping[str, Any]) -> Row:
    step, tool, args, result = row["step"], row["tool"], row["args"], row["result"]
    if row.get("cut") is not True:
        return step, tool, args, result
    return _CutRow((step, tool, marked_again(args), marked_again(result)))


def _line_of(row: Row) -> bytes:
    try:
        return _encode(row)
    except Exception:  # noqa: BLE001 - cyclic, too deep, not Unicode: all of it is plain once frozen
        return _encode(freeze(row))


def _first_encode(row: Any) -> bytes:
    # The JSON library is loaded by the first row, not by importing this module.
    global _encode
    _encode = codec().encoder_with(freeze)
    return _encode(row)


def _as_dict(row: Row) -> dict[str, Any]:
    step, tool, args, result = row
    return {"step": step, "tool": tool, "args": args, "result": result}


_encode: Callable[[Any], bytes] = _first_encode
