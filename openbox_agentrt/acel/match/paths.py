"""
Reading one field out of a call's arguments, by name or by path.

``payment.amount`` is the entry "amount" of the entry "payment"; a number is a position in a list.
An argument that is literally named "payment.amount" is found as well. If both are there, neither
is read: which of the two the tool will use is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._plain.arguments import plain_value
from ..._plain.unseen import Unseen
from ..wording import shown

_LEAVES = (str, int, float, bytes, type(None))


class FieldError(ValueError):
    """A field is missing or cannot be used. It names the field, never its value."""


class UnreadableError(FieldError):
    """A field is there, and nobody can look into it. What needs it takes its strict side."""

    def __init__(self, name: str, unseen: Unseen) -> None:
        self.name = name
        self.unseen = unseen
        super().__init__(f"{name} cannot be looked into ({unseen.why})")

    def __reduce__(self) -> tuple[object, ...]:
        return UnreadableError, (self.name, self.unseen)


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
            UnreadableError: Something on the way to it cannot be looked into.
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
            if not isinstance(value, (Mapping, list, tuple, *_LEAVES)):
                # An object of a class: what is seen of it is what contracts see of arguments.
                value = plain_value(value)
            if isinstance(value, Mapping):
                if part not in value:
                    return False, None
                value = value[part]
            elif isinstance(value, (list, tuple)) and part.isascii() and part.isdigit():
                if len(part) > 9 or int(part) >= len(value):
                    return False, None
                value = value[int(part)]
            elif isinstance(value, Unseen):
                raise UnreadableError(self.text, value)
            else:
                return False, None
        return True, value
