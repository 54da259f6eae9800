"""
Reading one field out of a call's arguments, by name or by path.

``payment.amount`` is the entry "amount" of the entry "payment"; a number is a position in a list.
An argument that is literally named "payment.amount" is found as well. If both are there, neither
is read: which of the two the tool will use is not known here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..wording import shown
from .amounts import AmountError, read_amount, show

MAX_KEY = 128


class FieldError(ValueError):
    """A field is missing or cannot be used. It names the field, never its value."""


class FieldPath:
    """A field's name or path, checked once and read often."""

    __slots__ = ("_parts", "dotted", "text")

    def __init__(self, text: object) -> None:
        if not isinstance(text, str) or not text or any(not part for part in text.split(".")):
            raise ValueError(f"a field must be a name or a dotted path, got {shown(text)}")
        self.text: str = text
        self._parts = tuple(text.split("."))
        self.dotted = len(self._parts) > 1

    def read(self, args: Mapping[str, Any]) -> Any:
        """
        Find the field's value.

        Raises:
            FieldError: It is missing, or there are two.
        """
        if not self.dotted:
            try:
                return args[self.text]
            except KeyError:
                raise FieldError(f"{self.text} is missing") from None
        found, value = self._walk(args)
        if self.text not in args:
            if not found:
                raise FieldError(f"{self.text} is missing")
            return value
        if found:
            raise FieldError(f"{self.text} is there twice, as a name and as a path")
        return args[self.text]

    def _walk(self, value: Any) -> tuple[bool, Any]:
        for part in self._parts:
            if isinstance(value, Mapping):
                if part not in value:
                    return False, None
                value = value[part]
            elif isinstance(value, (list, tuple)) and part.isascii() and part.isdigit():
                if len(part) > 9 or int(part) >= len(value):
                    return False, None
                value = value[int(part)]
            else:
                return False, None
        return True, value


def key_text(value: Any, name: str) -> str:
    """
    A value as the key of an automaton.

    The number 42 and the text "42" are one key, as they are one customer: a caller cannot get a second
    budget by writing an id in another type. Long text is kept as its hash.

    Raises:
        FieldError: The value is missing, a boolean, not finite, or a container.
    """
    if isinstance(value, str):
        text = str.__str__(value)
    elif value is None or isinstance(value, bool):
        raise FieldError(f"{name} must be text or a number, got {value}")
    elif isinstance(value, (int, float, Decimal)):
        text = _number_text(value, name)
    else:
        raise FieldError(f"{name} must be text or a number, got {type(value).__name__}")
    if len(text) > MAX_KEY:
        return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text


def _number_text(value: float | Decimal, name: str) -> str:
    try:
        amount = read_amount(value, negative=True)
    except AmountError as error:
        raise FieldError(f"{name} {error}") from None
    whole = int(amount)
    # 42.0 is 42. What is not whole has one spelling: 0.50 is 0.5.
    return str(whole) if whole == amount else show(amount).rstrip("0")
