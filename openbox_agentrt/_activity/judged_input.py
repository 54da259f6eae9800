"""
An input as it was judged, kept to be compared with what is about to run.

Whether the two are the same is for `openbox_agentrt._plain.same` to say: by what they mean, and never by
their address.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from .._plain.same import is_same, same_text

_PLAIN_DEPTH: Final = 16
_PLAIN_ITEMS: Final = 10_000
_MOST_ITEMS: Final = 1_000_000


class JudgedInput:
    """
    Remember an input as it was judged.

    Args:
        value: The input.
        shared: Whether somebody else may change it from now on. What nobody else has is kept as it is.
    """

    __slots__ = ("_text", "_value")

    def __init__(self, value: Any, *, shared: bool) -> None:
        self._value = value
        self._text = same_text(value) if shared else None

    def is_same(self, other: Any) -> bool:
        """Compare it with another input. Never raises."""
        if self._text is not None:
            return same_text(other) == self._text
        return is_same(self._value, other)


class ApprovedInput:
    """
    Remember an input that a person approved.

    Args:
        value: The input. What becomes of it later changes nothing here.
    """

    __slots__ = ("_fields", "_text")

    def __init__(self, value: Any) -> None:
        self._fields = _texts(value) if isinstance(value, Mapping) else None
        self._text = same_text(value) if self._fields is None else None

    def is_in(self, other: Any) -> bool:
        """Tell whether `other` is this input, or has all of its fields unchanged and more. Never raises."""
        if self._fields is None:
            return same_text(other) == self._text
        return isinstance(other, Mapping) and self._fields.items() <= _texts(other).items()


def _texts(value: Mapping[Any, Any]) -> dict[str, str]:
    return {same_text(name): same_text(item) for name, item in value.items()}


def snapshot(value: Any) -> tuple[Any, bool]:
    """
    Make a copy, and tell whether nobody else can change it.

    Where there are objects in it, they decide what a copy of them is, and it may be they themselves. What
    cannot be copied at all is returned as it is.
    """
    try:
        return _copied(value, [_PLAIN_ITEMS], 0), True
    except (_NotPlainError, RuntimeError):
        pass
    try:
        return copy.deepcopy(value), False
    except Exception:  # noqa: BLE001
        # What cannot be copied is compared before it is used.
        return value, False


def own_copy(value: Any) -> Any:
    """Copy JSON data, which whoever made it may change later. Anything else is returned as it is."""
    try:
        return _copied(value, [_MOST_ITEMS], 0)
    except (_NotPlainError, RuntimeError):
        return value


class _NotPlainError(Exception):
    """A value is more than JSON data, or deeper than most."""


def _copied(value: Any, room: list[int], depth: int) -> Any:
    kind = type(value)
    if kind is dict:
        copied = value.copy()
        inside = copied.values()
        if not _IMMUTABLE.issuperset(map(type, copied)):
            raise _NotPlainError  # a key that is more than a name
    elif kind is list:
        copied = inside = value.copy()
    elif kind in _IMMUTABLE:
        return value
    else:
        raise _NotPlainError
    # What stands in several places is copied for each of them, so there is a bound on how often.
    room[0] -= len(copied)
    if room[0] < 0 or depth == _PLAIN_DEPTH:
        raise _NotPlainError
    if _IMMUTABLE.issuperset(map(type, inside)):
        return copied
    if kind is list:
        return [_copied(item, room, depth + 1) for item in copied]
    return {key: _copied(item, room, depth + 1) for key, item in copied.items()}


_IMMUTABLE: Final = frozenset({str, int, float, bool, type(None)})
