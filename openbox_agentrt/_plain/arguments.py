"""
Arguments of a call as contracts see them.

`plain_arguments` is for every door and the loop: whatever objects a caller passes, contracts see JSON data in
which each value has its name, and `Unseen` where nobody can look. `plain_args` is for the engine, which is
given such data, or a program's own: a copy that later changes to the caller's containers do not reach.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any, Final

from .objects import name_of, text_is_value
from .unseen import Unseen
from .walk import Walker

_SCALARS: Final = frozenset({str, int, float, bool, type(None), bytes})


def plain_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """
    Give the arguments of a call as plain data that shares nothing with them.

        ===============================  ======================================================
        dataclass, model, msgspec, attrs a mapping of its fields
        mapping, list, tuple             a mapping, a list; names that are no text as JSON has them
        set                              a list, sorted
        enum                             its value
        date, time                       ISO 8601
        UUID, path, address, URL         its text
        bytes                            their text if they are UTF-8, else bytes
        `Decimal`, NaN, infinity         as they are: contracts read amounts exactly
        another number                   a whole number or a float
        exception                        ``{"type": ..., "message": ...}``
        anything else                    `Unseen`
        ===============================  ======================================================

    Raises nothing, whatever is in them.
    """
    own = dict(args)
    for value in own.values():
        if type(value) not in _SCALARS:
            walker = _Arguments()
            return {key: walker.walk(value, 1) for key, value in own.items()}
    return own


def plain_value(value: Any) -> Any:
    """Give one value as `plain_arguments` gives it inside of arguments."""
    return _Arguments().walk(value)


def plain(value: Any) -> Any:
    """Copy every dict, list, tuple and set in `value`; other objects are the same ones."""
    return value if type(value) in _SCALARS else _Copies().walk(value)


def plain_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the arguments of a call and the containers in them; other objects are the same ones."""
    own = {**args}
    for name in own:
        if type(own[name]) not in _SCALARS:
            walker = _Copies(args)
            return {key: walker.walk(value, 1) for key, value in own.items()}
    return own


class _Visible(Walker):
    """The marks of arguments: what cannot be seen is `Unseen`."""

    __slots__ = ()

    def not_finite(self, number: float) -> Any:
        return number

    def octets(self, data: bytes) -> Any:
        return data

    def items(self, items: list[Any], depth: int) -> Any:
        return [self.walk(item, depth) for item in items]

    def unseen(self, value: Unseen) -> Any:
        return value

    def opaque(self, value: object, kind: type) -> Any:
        return Unseen("opaque", name_of(kind))

    def cyclic(self, kind: type) -> Any:
        return Unseen("cycle")

    def too_deep(self) -> Any:
        return Unseen("too deep")

    def unreadable(self, kind: type, error: Exception) -> Any:
        return Unseen("unreadable")


class _Arguments(_Visible):
    __slots__ = ()

    def other(self, value: Any, kind: type, depth: int) -> Any:
        from decimal import Decimal
        from enum import Enum
        from numbers import Integral, Real

        if issubclass(kind, Enum):
            return self.walk(value.value, depth)
        if issubclass(kind, Decimal):
            return Decimal(value)
        if issubclass(kind, BaseException):
            return {"type": kind.__name__, "message": str.__str__(str(value))}
        if text_is_value(kind):
            moment = getattr(kind, "isoformat", None)
            return str.__str__(str(value) if moment is None else moment(value))
        if not issubclass(kind, int | float) and issubclass(kind, Real):
            return int(value) if issubclass(kind, Integral) else float(value)
        return super().other(value, kind, depth)

    def octets(self, data: bytes) -> Any:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    def mapping(self, pairs: list[tuple[Any, Any]], depth: int) -> Any:
        result: dict[str, Any] = {}
        for key, value in pairs:
            name = key if type(key) is str else self._name(key, depth)
            if name in result or not isinstance(name, str):
                # Two keys that contracts would know by one name, or one that has none.
                return Unseen("unreadable")
            result[name] = self.walk(value, depth)
        return result

    def _name(self, key: Any, depth: int) -> Any:
        plain = self.walk(key, depth)
        return json.dumps(plain) if isinstance(plain, bool | int | float) or plain is None else plain

    def unordered(self, items: list[Any], depth: int) -> Any:
        return sorted(
            self.items(items, depth), key=lambda item: json.dumps(item, sort_keys=True, default=str)
        )


class _Copies(_Visible):
    """Own copies of containers, with everything else as it is."""

    __slots__ = ()

    def __init__(self, outer: object = None) -> None:
        super().__init__()
        self._open.add(id(outer))

    def other(self, value: Any, kind: type, depth: int) -> Any:
        if kind is bytes or not issubclass(kind, (Mapping, list, tuple, Set)):
            return value
        return super().other(value, kind, depth)

    def fixed(self, items: list[Any], depth: int) -> Any:
        return tuple(self.items(items, depth))

    def mapping(self, pairs: list[tuple[Any, Any]], depth: int) -> Any:
        return {key: self.walk(value, depth) for key, value in pairs}

    def unordered(self, items: list[Any], depth: int) -> Any:
        return {self.walk(item, depth) for item in items}


def _in_order(item: Any) -> str:
    return json.dumps(item, sort_keys=True, default=str)
