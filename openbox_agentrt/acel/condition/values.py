"""
Values as conditions see them, and the functions that conditions may call.

CEL has whole numbers of 64 bits and binary fractions. What neither can hold as it is, is refused before it
gets there: an amount that is rounded is another amount.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..._plain.amounts import AmountError, add, read_amount
from ..._plain.arguments import plain_value
from ..._plain.unseen import Unseen
from ..match.paths import FieldError, UnreadableError
from ..match.spelling import key_text

_LEAST, _MOST = -(2**63), 2**63
MAX_TEXT = 1 << 16
MAX_DEPTH = 100
MAX_PARTS = 4096


def cel_value(value: Any, name: str, depth: int = MAX_DEPTH) -> Any:
    """
    Give a value as CEL can hold it, and as it is.

    Raises:
        FieldError: It cannot. It names the value, and does not show it.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        if not _LEAST <= value < _MOST:
            raise FieldError(f"{name} is a whole number beyond 64 bits")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise FieldError(f"{name} is not finite")
        return value
    if not depth:
        raise FieldError(f"{name} is nested too deeply")
    if kind is list or kind is tuple:
        return [cel_value(part, name, depth - 1) for part in value]
    if kind is dict:
        return {_name(key, name): cel_value(part, name, depth - 1) for key, part in value.items()}
    return _of_object(value, name)


def is_small(value: Any) -> bool:
    """Tell whether a value is small enough to be kept as a fact."""
    parts, text = 0, 0
    left = [value]
    while left:
        part = left.pop()
        parts += 1
        if isinstance(part, str):
            text += len(part)
        elif isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            text += sum(map(len, part))
            left += part.values()
        if text > MAX_TEXT or parts > MAX_PARTS:
            return False
    return True


def told_kind(value: Any) -> str:
    """Say of what kind a value is, which is all that may be told of it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "a mapping"
    return "of no such kind"


def total(values: list[Any]) -> int | float:
    """
    Add up a list of numbers exactly.

    Raises:
        FieldError: One is no number, or the sum is one that CEL cannot hold.
    """
    amount: int | Decimal = 0
    for value in values:
        try:
            amount = add(amount, read_amount(value, negative=True))
        except AmountError as error:
            raise FieldError(f"an element of sum {error}") from None
    held = cel_value(amount, "the sum")
    assert isinstance(held, int | float)
    return held


def distinct(values: list[Any]) -> list[str]:
    """
    Give the different values of a list, each once, spelt as keys of contracts are: 42 and "42" are one.

    Raises:
        FieldError: One is neither text nor a number.
    """
    return list(dict.fromkeys(key_text(value, "an element of distinct") for value in values))


def _name(key: Any, name: str) -> str:
    return key if type(key) is str else key_text(key, f"a name in {name}")


def _of_object(value: Any, name: str) -> Any:
    if isinstance(value, Decimal):
        return _of_decimal(value, name)
    if isinstance(value, Unseen):
        raise UnreadableError(name, value)
    seen = value if isinstance(value, bytes) else plain_value(value)
    if isinstance(seen, bytes):
        raise FieldError(f"{name} is bytes")
    if type(seen) is type(value) and not isinstance(seen, Mapping):
        raise FieldError(f"{name} is of a kind that conditions do not know")
    return cel_value(seen, name)


def _of_decimal(value: Decimal, name: str) -> int | float:
    if not value.is_finite():
        raise FieldError(f"{name} is not finite")
    if value == value.to_integral_value() and abs(value) < _MOST:
        return int(cel_value(int(value), name))
    nearest = float(value)
    # As everywhere, a float is the number that it is written as.
    if not math.isfinite(nearest) or Decimal(repr(nearest)) != value:
        raise FieldError(f"{name} cannot be held exactly")
    return nearest
