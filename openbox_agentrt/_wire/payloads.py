"""
Any Python value as JSON data for the wire.

`json_safe` is run on everything that goes to Core, before openbox_core's own conversion, which raises on
cycles, deep nesting, locks and failing ``__str__``, writes NaN as ``NaN`` and sends five megabytes as they
are. It never raises and never changes what it is given:

    ========================  ===================================================================
    NaN, infinity             null
    whole number > 64 bits    hexadecimal text
    text                      as it is; lone surrogates become U+FFFD
    bytes                     their text when they are UTF-8, else ``{"base64": ...}``
    set                       a list, sorted
    mapping                   text keys; two keys with one text are told apart by ``#2``
    dataclass, model          a mapping of its fields
    enum                      its value
    date, decimal, UUID, path text; an aware or naive datetime as RFC 3339 in UTC
    exception                 ``{"type": ..., "message": ...}``
    any other object          its text without memory addresses, or the name of its type
    a cycle, too deep, broken ``<cycle>``, ``<too deep>``, ``<unreadable pkg.Type>``
    ========================  ===================================================================

The cap is for each text: a large one pushes nothing else out. A text of more than `max_bytes` keeps its
beginning and ends in ``[cut: N bytes, sha256 H]``. All texts together may take `MOST_VALUES` times as much;
beyond that, long ones are cut to `SMALL` bytes. Of a mapping, what is small comes first and is never cut.
What even so does not fit - a million entries - is left out, and a mark gives the number and the hash of it.
`shown` says whether something is missing, be it by size, by depth, or because it could not be read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from sys import getsizeof
from typing import Any, Final

import msgspec

from .._plain.codec import MAX_DEPTH
from .._plain.objects import name_of
from .._plain.times import rfc3339
from .._plain.walk import Json, Walker

DEFAULT_MAX_BYTES: Final = 1_000_000

MOST_VALUES: Final = 4
"""Texts of the largest size that fit into one payload."""

SMALL: Final = 1_024
"""Bytes of a text that is never cut."""

_PLAIN_DEPTH: Final = 16
_FEW: Final = 16
_NODE_BYTES: Final = 2
_MOST_BYTES_OF_A_CHARACTER: Final = 4
_WHOLE: Final = 2**63 - 1
_CONTAINERS: Final = (dict, list, tuple)
_NUMBERS: Final = (bool, int, float)
_STRINGS: Final = frozenset({str})
_FLAT: Final = frozenset({str, int, bool, type(None)})
_PACKER: Final = msgspec.msgpack.Encoder()
_ADDRESS: Final = re.compile(r"(?: at)? 0x[0-9a-fA-F]{6,16}\b")


def json_safe(value: object, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Any:
    """Give `value` as plain JSON data; see the module for what becomes what, and for `max_bytes`."""
    return shown(value, max_bytes=max_bytes)[0]


def shown(value: object, *, max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[Any, bool]:
    """Give `value` as `json_safe` does, and whether all of it is in there."""
    try:
        return _plain(value, [MOST_VALUES * max_bytes], max_bytes, 0), True
    except (_NotPlainError, RuntimeError, UnicodeEncodeError, OverflowError):
        # RuntimeError: somebody changes a mapping that is being read. The others: half a character, or a
        # number that is too large.
        pass
    converter = _Converter(max_bytes)
    return converter.walk(value), converter.is_whole


def safe_text(text: str) -> str:
    """`text` as something that UTF-8 can hold: surrogate pairs joined, lone surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _NotPlainError(Exception):
    """A value is not JSON data as it stands, or there is too much of it."""


def _plain(value: Any, left: list[int], longest: int, depth: int) -> Any:
    """
    Copy what is JSON data already, which most values are; `_Converter` would make the same of it.

    Args:
        left: The bytes that may be used, in its only item. What is taken from it is never less than what the
            converter would take, so that nothing has to be cut if some are left.
        longest: The bytes of the longest text that is not cut.
    """
    kind = type(value)
    copy: Any
    if kind is dict:
        copy = value.copy()
        inside = copy.values()
        if not _STRINGS.issuperset(map(type, copy)):
            raise _NotPlainError
    elif kind is list or kind is tuple:
        copy = inside = list(value)
    else:
        return _plain_leaf(value, left, longest)
    if _FLAT.issuperset(map(type, inside)):
        # A text that stands there many times is not written out only to be measured.
        if len(copy) > _FEW and sum(map(getsizeof, inside)) > left[0]:
            raise _NotPlainError
        size = len(_PACKER.encode(copy))
        left[0] -= size + _NODE_BYTES * (len(copy) + 1)
        if left[0] <= 0 or size >= longest:
            raise _NotPlainError
        return copy
    left[0] -= _NODE_BYTES
    if left[0] <= 0 or depth == _PLAIN_DEPTH:
        raise _NotPlainError  # something has to be cut, and the rest need not be looked at
    if kind is not dict:
        return [_plain(item, left, longest, depth + 1) for item in copy]
    names = "".join(copy)
    left[0] -= len(names)
    if not names.isascii() or len(names) > longest:
        raise _NotPlainError
    for name, item in copy.items():
        copy[name] = _plain(item, left, longest, depth + 1)
    return copy


def _plain_leaf(value: Any, left: list[int], longest: int) -> Any:
    """Do the same with what holds nothing else."""
    kind = type(value)
    left[0] -= _NODE_BYTES
    if kind is str:
        is_ascii = value.isascii()
        size = len(value) if is_ascii else _MOST_BYTES_OF_A_CHARACTER * len(value)
        left[0] -= size
        if left[0] > 0 and size <= longest:
            return value if is_ascii else safe_text(value)
    elif left[0] > 0 and (
        value is None
        or kind is bool
        or (kind is int and -_WHOLE <= value <= _WHOLE)
        or (kind is float and math.isfinite(value))
    ):
        return value
    raise _NotPlainError


class _Converter(Walker):
    """
    The marks of the wire.

    Attributes:
        is_whole: Whether nothing has been left out so far.
    """

    __slots__ = ("_left", "_longest", "is_whole")

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._longest = max_bytes
        self._left = MOST_VALUES * max_bytes
        self.is_whole = True

    def walk(self, value: Any, depth: int = 0) -> Any:
        self._left -= _NODE_BYTES
        return super().walk(value, depth)

    def other(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, Enum):
            return self.walk(value.value, depth)
        if issubclass(kind, datetime):
            return rfc3339(value)
        if issubclass(kind, BaseException):
            return {"type": kind.__name__, "message": self.text(str(value))}
        return super().other(value, kind, depth)

    def text(self, text: str) -> str:
        text = safe_text(text)
        size = len(text) if text.isascii() else len(text.encode())
        room = min(self._longest, max(self._left, SMALL))
        self._left -= min(size, room)
        if size <= room:
            return text
        self.is_whole = False
        data = text.encode()
        kept = data[:room].decode(errors="ignore")
        return f"{kept}[cut: {size} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"

    def whole(self, number: int) -> int | str:
        # Decoders know at most 64 bits, and Python refuses to print very long numbers in decimals.
        return number if -(2**63) <= number < 2**64 else hex(number)

    def not_finite(self, number: float) -> None:
        return None

    def octets(self, data: bytes) -> Json:
        try:
            return self.text(data.decode())
        except UnicodeDecodeError:
            return {"base64": self.text(base64.b64encode(data).decode())}

    def mapping(self, pairs: list[tuple[Any, Any]], depth: int) -> Json:
        result: dict[str, Json] = {}
        large: list[tuple[str, Any]] = []
        for position, (key, value) in enumerate(pairs):
            name = self.text(key) if type(key) is str else self._key(key)
            if self._is_full():
                result[self._left_out(pairs[position:], "entries")] = None
                break
            if name in result:
                name = _next_free(name, result)
            result[name] = None
            if _is_small(value):
                result[name] = self.walk(value, depth)
            else:
                large.append((name, value))
        for position, (name, value) in enumerate(large):
            if self._is_full():
                for unseen, _ in large[position:]:
                    del result[unseen]
                result[self._left_out(large[position:], "entries")] = None
                break
            result[name] = self.walk(value, depth)
        return result

    def _is_full(self) -> bool:
        # What is small may take a further share, so that nothing large keeps it out.
        return self._left <= -self._longest

    def _left_out(self, rest: Sequence[Any], what: str) -> str:
        self.is_whole = False
        return _cut_mark(rest, what)

    def _key(self, key: object) -> str:
        if isinstance(key, str):
            return self.text(str.__str__(key.value if isinstance(key, Enum) else key))
        plain = self.walk(key, MAX_DEPTH - 1)
        return plain if isinstance(plain, str) else self.text(json.dumps(plain))

    def items(self, items: list[Any], depth: int) -> list[Json]:
        result: list[Json] = []
        for position, item in enumerate(items):
            if self._is_full():
                result.append(self._left_out(items[position:], "items"))
                break
            result.append(self.walk(item, depth))
        return result

    def unordered(self, items: list[Any], depth: int) -> Json:
        return sorted(self.items(items, depth), key=_canonical)

    def opaque(self, value: object, kind: type) -> Json:
        speaks = any(name in base.__dict__ for base in kind.__mro__[:-1] for name in ("__str__", "__repr__"))
        return self.text(_ADDRESS.sub("", str.__str__(str(value))) if speaks else f"<{name_of(kind)}>")

    def cyclic(self, kind: type) -> Json:
        return "<cycle>"

    def too_deep(self) -> Json:
        self.is_whole = False
        return "<too deep>"

    def unreadable(self, kind: type, error: Exception) -> Json:
        self.is_whole = False
        return f"<unreadable {name_of(kind)}>"


def _is_small(value: object) -> bool:
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) <= SMALL // _MOST_BYTES_OF_A_CHARACTER  # type: ignore[arg-type]  # of one of both
    return value is None or kind in _NUMBERS


def _cut_mark(rest: object, what: str) -> str:
    count = len(rest) if isinstance(rest, list | tuple) else 0
    if _is_shared(rest):
        # Written out, a few lists in each other's places are more than a machine can write.
        return f"[cut: {count} {what}]"
    try:
        digest = hashlib.sha256(msgspec.json.encode(rest)).hexdigest()
    except Exception:  # noqa: BLE001
        # Only plain data has a hash. The mark stays, so that the cut is not silent.
        return f"[cut: {count} {what}]"
    return f"[cut: {count} {what}, sha256 {digest}]"


def _is_shared(root: object) -> bool:
    """Tell whether a container stands in two places. Looks at plain ones only: nothing else has a hash."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        value = stack.pop()
        if type(value) is dict:
            items: Iterable[Any] = value.values()
        elif type(value) is list or type(value) is tuple:
            items = value
        else:
            continue
        if id(value) in seen:
            return True
        seen.add(id(value))
        stack.extend(item for item in items if type(item) in _CONTAINERS)
    return False


def _next_free(name: str, taken: Mapping[str, object]) -> str:
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True)
