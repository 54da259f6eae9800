"""
Copies that later changes do not reach.

`plain` copies containers and keeps everything else as it is: what is judged is then what was
given, whatever the caller does to its dict afterwards. `frozen` goes further and is for records:
what is no plain value becomes plain, or a marker that names its type. Both end on cyclic, very
deep and hostile input.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Mapping, Set
from pathlib import PurePath
from typing import Any

MAX_DEPTH = 64
CYCLE = "<cycle>"
TOO_DEEP = "<too deep>"

_SCALARS = frozenset({str, int, float, bool, type(None), bytes})
_KEPT = (
    str,
    bytes,
    int,
    float,
    decimal.Decimal,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    PurePath,
    enum.Enum,
)


def plain(value: Any) -> Any:
    """`value` with every dict, list, tuple and set in it copied; other objects are the same ones."""
    return value if type(value) in _SCALARS else _copy(value, (), False)


def plain_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call as a dict of their own, containers copied."""
    own = dict(args)
    for key, value in own.items():
        if type(value) not in _SCALARS:
            own[key] = _copy(value, (), False)
    return own


def frozen(value: Any) -> Any:
    """`value` as plain data for a record: no live object is left in it."""
    return value if type(value) in _SCALARS else _copy(value, (), True)


def marker(value: object) -> str:
    """What stands for an object that has no plain form. It holds no address and no content."""
    kind = type(value)
    return f"<{kind.__module__}.{kind.__qualname__}>"


def _copy(value: Any, inside: tuple[int, ...], freeze: bool) -> Any:
    if type(value) in _SCALARS:
        return value
    if id(value) in inside:
        return CYCLE
    if len(inside) >= MAX_DEPTH:
        return TOO_DEEP
    here = (*inside, id(value))
    try:
        # list() first: another thread may be changing the container.
        if isinstance(value, Mapping):
            return {_key(k, freeze): _copy(v, here, freeze) for k, v in list(value.items())}
        if isinstance(value, tuple):
            return tuple(_copy(v, here, freeze) for v in value)
        if isinstance(value, list):
            return [_copy(v, here, freeze) for v in list(value)]
        if isinstance(value, Set):
            items = [_copy(v, here, freeze) for v in list(value)]
            return sorted(items, key=repr) if freeze else set(items)
        if not freeze or isinstance(value, _KEPT):
            return value
        return _copy(_fields(value), here, freeze)
    except Exception:  # noqa: BLE001 - the object's own code raised, and a copy must not
        return marker(value)


def _key(key: Any, freeze: bool) -> Any:
    return key if type(key) in _SCALARS or not freeze or isinstance(key, _KEPT) else marker(key)


def _fields(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) and not isinstance(value, type) else marker(value)
