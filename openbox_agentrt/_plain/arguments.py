"""
Copies of arguments that later changes do not reach.

What is judged is what was given, whatever the caller does to its dict afterwards, and no container of
a caller's own class is looked into twice. It ends on cyclic, very deep and hostile input. Records go
further and hold plain data only: see `openbox_agentrt.evidence.freeze`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

MAX_DEPTH = 64
CYCLE = "<cycle>"
TOO_DEEP = "<too deep>"
UNREADABLE = "<unreadable>"

_SCALARS = frozenset({str, int, float, bool, type(None), bytes})


def plain(value: Any) -> Any:
    """`value` with every dict, list, tuple and set in it copied; other objects are the same ones."""
    return value if type(value) in _SCALARS else _copy(value, ())


def plain_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call as a dict of their own, containers copied."""
    own = dict(args)
    for value in own.values():
        if type(value) not in _SCALARS:
            return {key: _copy(value, (id(args),)) for key, value in own.items()}
    return own


def _copy(value: Any, inside: tuple[int, ...]) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if not issubclass(kind, (Mapping, list, tuple, Set)):
        return value
    if id(value) in inside:
        return CYCLE
    if len(inside) >= MAX_DEPTH:
        return TOO_DEEP
    here = (*inside, id(value))
    try:
        # list() first: another thread may be changing the container.
        if issubclass(kind, Mapping):
            return {k: _copy(v, here) for k, v in list(value.items())}
        items = [_copy(v, here) for v in list(value)]
        return items if issubclass(kind, list) else tuple(items) if issubclass(kind, tuple) else set(items)
    except Exception:  # noqa: BLE001 - a container's own code raised, and what it holds cannot be judged
        return UNREADABLE
