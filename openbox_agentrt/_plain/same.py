"""
Values that mean the same, whatever they are made of.

JSON values are compared as JSON. Anything else is compared by what it holds, and never by its address: a copy
of it is the same value. What shows neither fields nor a text of its own is compared by its type alone.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Mapping, Set
from typing import Any, Final

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_AS_IT_IS: Final = 2
"""The format of `marshal` that says nothing of how often an object is referred to."""


def is_same(one: Any, other: Any) -> bool:
    """Compare two values by what they mean. Never raises."""
    try:
        # Most are data of the very same types, in the same order.
        if marshal.dumps(one, _AS_IT_IS) == marshal.dumps(other, _AS_IT_IS):
            return True
    except ValueError:
        # They are more than data, or nested too deeply.
        pass
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
