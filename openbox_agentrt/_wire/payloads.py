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

What does not fit into `max_bytes` is cut, and the cut is visible: text keeps its beginning and ends in
``[cut: N bytes, sha256 H]``; of a container the items that fit are kept and one with the same mark follows. A
policy can therefore see that it did not see everything, and match on the hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

from .._plain.codec import MAX_DEPTH
from .._plain.objects import name_of
from .._plain.times import rfc3339
from .._plain.walk import Json, Walker, object_text

__all__ = ("DEFAULT_MAX_BYTES", "Json", "is_cut", "json_safe", "safe_text")

DEFAULT_MAX_BYTES: Final = 1_000_000
_PLAIN_DEPTH: Final = 16
_NODE_BYTES: Final = 2
_MOST_BYTES_OF_A_CHARACTER: Final = 4
_WHOLE: Final = 2**63 - 1
_CONTAINERS: Final = (dict, list, tuple)
_CUT = re.compile(r"\[cut: [0-9]+ [a-z ]+(?:, sha256 [0-9a-f]{64})?\]")


def json_safe(value: object, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Any:
    """`value` as plain JSON data of about `max_bytes` at most; see the module for what becomes what."""
    try:
        return _plain(value, [max_bytes], 0)
    except (_NotPlainError, RuntimeError):
        # RuntimeError: somebody changes a mapping that is being read.
        pass
    return _Converter(max_bytes).walk(value)


def safe_text(text: str) -> str:
    """`text` as something that UTF-8 can hold: surrogate pairs joined, lone surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_cut(text: str) -> bool:
    """Tell whether `text` carries the mark of something that was cut."""
    return _CUT.search(text) is not None


class _NotPlainError(Exception):
    """A value is not JSON data as it stands, or there is too much of it."""


def _plain(value: Any, left: list[int], depth: int) -> Any:
    """
    A copy of what is JSON data already, which most values are; `_Converter` would make the same of it.

    Args:
        left: The bytes that may be used, in its only item. What is taken from it is never less than what the
            converter would take, so that nothing has to be cut if some are left.
    """
    kind = type(value)
    left[0] -= _NODE_BYTES
    if kind is str:
        plain = value.isascii()
        left[0] -= len(value) if plain else _MOST_BYTES_OF_A_CHARACTER * len(value)
        if left[0] <= 0:
            raise _NotPlainError
        return value if plain else safe_text(value)
    if left[0] <= 0:
        raise _NotPlainError  # something has to be cut, and the rest need not be looked at
    if kind is dict:
        if depth == _PLAIN_DEPTH:
            raise _NotPlainError
        copy = {}
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                raise _NotPlainError
            left[0] -= len(key)
            copy[key] = _plain(item, left, depth + 1)
        return copy
    if kind is list or kind is tuple:
        if depth == _PLAIN_DEPTH:
            raise _NotPlainError
        return [_plain(item, left, depth + 1) for item in value]
    if (
        value is None
        or kind is bool
        or (kind is int and -_WHOLE <= value <= _WHOLE)
        or (kind is float and math.isfinite(value))
    ):
        return value
    raise _NotPlainError


class _Converter(Walker):
    """The marks of the wire."""

    __slots__ = ("_left",)

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._left = max_bytes

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
        if size <= self._left:
            self._left -= size
            return text
        data = text.encode()
        kept = data[: max(self._left, 0)].decode(errors="ignore")
        self._left = 0
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
        for position, (key, value) in enumerate(pairs):
            name = self.text(key) if type(key) is str else self._key(key)
            if self._left <= 0:
                result[_cut_mark(pairs[position:], "entries")] = None
                break
            if name in result:
                name = _next_free(name, result)
            result[name] = self.walk(value, depth)
        return result

    def _key(self, key: object) -> str:
        if isinstance(key, str):
            return self.text(str.__str__(key.value if isinstance(key, Enum) else key))
        plain = self.walk(key, MAX_DEPTH - 1)
        return plain if isinstance(plain, str) else self.text(json.dumps(plain))

    def items(self, items: list[Any], depth: int) -> list[Json]:
        result: list[Json] = []
        for position, item in enumerate(items):
            if self._left <= 0:
                result.append(_cut_mark(items[position:], "items"))
                break
            result.append(self.walk(item, depth))
        return result

    def unordered(self, items: list[Any], depth: int) -> Json:
        return sorted(self.items(items, depth), key=_canonical)

    def opaque(self, value: object, kind: type) -> Json:
        speaks = any(name in base.__dict__ for base in kind.__mro__[:-1] for name in ("__str__", "__repr__"))
        return self.text(object_text(value) if speaks else f"<{name_of(kind)}>")

    def cyclic(self, kind: type) -> Json:
        return "<cycle>"

    def too_deep(self) -> Json:
        return "<too deep>"

    def unreadable(self, kind: type, error: Exception) -> Json:
        return f"<unreadable {name_of(kind)}>"


def _cut_mark(rest: object, what: str) -> str:
    count = len(rest) if isinstance(rest, list | tuple) else 0
    if _is_shared(rest):
        # Written out, a few lists in each other's places are more than a machine can write.
        return f"[cut: {count} {what}]"
    try:
        import msgspec

        digest = hashlib.sha256(msgspec.json.encode(rest)).hexdigest()
    except Exception:  # noqa: BLE001
        # Only plain data has a hash. The mark stays, so that the cut is not silent.
        return f"[cut: {count} {what}]"
    return f"[cut: {count} {what}, sha256 {digest}]"


def _is_shared(root: object) -> bool:
    """Whether a container stands in two places. Looks at plain containers only: nothing else has a hash."""
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
