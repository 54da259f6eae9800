"""
Values that mean the same, whatever they are made of.

JSON values are compared as JSON. Anything else is compared by what it holds, and never by its address: a copy
of it is the same value. What shows neither fields nor a text of its own is compared by its type alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from itertools import repeat
from typing import Any, Final

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN_DEPTH: Final = 16
_IMMUTABLE: Final = frozenset({str, int, float, bool, type(None)})
_STRINGS: Final = frozenset({str})


class _NotPlainError(Exception):
    """A value is more than JSON data, or deeper than most."""


def is_same(one: Any, other: Any) -> bool:
    """Compare two values by what they mean. Never raises."""
    try:
        return _is_same(one, other, 0)
    except (_NotPlainError, RuntimeError):
        # RuntimeError: somebody changes a mapping that is being read.
        return same_text(one) == same_text(other)


def same_text(value: Any) -> str:
    """Give one text for values that mean the same, whatever the order of their keys. Never raises."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_contents)
    except (TypeError, ValueError, RecursionError):
        # Keys that cannot be sorted, a cycle, a number or a depth beyond what JSON writers do.
        return json.dumps(_tokens(value))


def _contents(value: Any) -> Any:
    """Give what `value` holds, in types of JSON as far as that goes."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    match value:
        case Mapping():
            return dict(value)
        case bytes() | bytearray() | memoryview():
            return {kind: bytes(value).hex()}
        case Set():
            return {kind: sorted(same_text(item) for item in value)}
    fields = getattr(value, "__dict__", None)
    return {kind: fields if isinstance(fields, dict) and fields else _text(value)}


def _text(value: Any) -> str | None:
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception:  # noqa: BLE001
        # A value without a text is compared by its type: it cannot be seen into.
        return None


def _tokens(root: Any) -> list[str]:
    """Give `root` in a flat list, without recursion: for cycles and for any depth."""
    tokens: list[str] = []
    seen: dict[int, int] = {}
    kept: list[Any] = []  # what was made on the way must live, or its id would be used again
    stack = [root]
    while stack:
        value = stack.pop()
        if value is None or isinstance(value, bool | float | str):
            tokens.append(json.dumps(value))
            continue
        if isinstance(value, int):
            tokens.append(hex(value))
            continue
        if id(value) in seen:
            tokens.append(f"again {seen[id(value)]}")
            continue
        seen[id(value)] = len(seen)
        kept.append(value)
        if isinstance(value, Mapping):
            items = sorted(((_key(key), item) for key, item in value.items()), key=lambda pair: pair[0])
            tokens.append(f"mapping {json.dumps([key for key, _ in items])}")
            stack.extend(item for _, item in reversed(items))
        elif isinstance(value, list | tuple):
            tokens.append(f"list {len(value)}")
            stack.extend(reversed(value))
        else:
            stack.append(_contents(value))
    return tokens


def _key(key: Any) -> str:
    return f"{type(key).__name__} {key if isinstance(key, str) else _text(key)}"


def _is_same(one: Any, other: Any, depth: int) -> bool:
    """Say what comparing the canonical texts of JSON data would say."""
    kind = type(one)
    if kind is float or depth == _PLAIN_DEPTH:
        raise _NotPlainError  # a zero has a sign, and NaN is not equal to itself
    if kind in _IMMUTABLE and type(other) in _IMMUTABLE:
        return kind is type(other) and one == other
    if kind is dict and type(other) is dict:
        # Their own equality is not asked for: a key of another type may call itself the same.
        if not _STRINGS.issuperset(map(type, one)) or not _STRINGS.issuperset(map(type, other)):
            raise _NotPlainError
        return one.keys() == other.keys() and all(
            map(_is_same, one.values(), map(other.__getitem__, one), repeat(depth + 1))
        )
    if kind is list and type(other) is list:
        return len(one) == len(other) and all(map(_is_same, one, other, repeat(depth + 1)))
    raise _NotPlainError
