"""
One walk through any value, towards plain data: what the readers of values share.

`Walker` knows what there is to look into and in which order to ask; what stands in the place of what is not
plain, it is told by its marks. Four use it:

    ================================  ==================================  ========================
    marks                             for                                 what cannot be seen
    ================================  ==================================  ========================
    `freezing.freeze`                 records                             ``{"$cycle": ...}``
    `arguments.plain_arguments`       arguments that are judged           `Unseen`
    `arguments.plain_args`            copies that others cannot change    `Unseen`
    ``_wire.payloads.json_safe``      Core                                ``<cycle>``
    ================================  ==================================  ========================

Dataclasses and models are read field by field, so that no method of theirs runs and each field has a name
that redaction and contracts can go by. The walk ends on cyclic, very deep and hostile values: it raises
nothing but what the interpreter itself raises for want of memory.
"""

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, TypeAlias

from .codec import MAX_DEPTH
from .objects import fields_of, scalars
from .unseen import Unseen

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


_OBJECT_TEXT: Final = 1_000
_ADDRESS: Final = r"(?: at)? 0x[0-9a-fA-F]{6,16}\b"


class Walker(ABC):
    """
    Turn values into plain data.

    A subclass is a table of marks: one method for each kind of value that JSON does not have, or not in that
    form. It serves one walk, since it remembers which containers are open.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: set[int] = set()

    def walk(self, value: Any, depth: int = 0) -> Any:
        """Give `value` as plain data. Calls no method of the value that its type does not promise."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is bool or value is None:
            return value
        if kind is int:
            return self.whole(value)
        if kind is float:
            # A finite float minus itself is zero; NaN and the infinities give NaN.
            return value if value - value == 0 else self.not_finite(value)
        try:
            if kind is dict:
                return self._inside(value, self.mapping, list(value.items()), depth)
            if kind is list:
                return self._inside(value, self.items, list(value), depth)
            return self.other(value, kind, depth)
        except Exception as error:  # noqa: BLE001 - the value's own code ran and failed, which the mark says
            return self.unreadable(kind, error)

    def other(self, value: Any, kind: type, depth: int) -> Any:
        """Look into what is not of a type of JSON itself."""
        # The type decides, not isinstance(): that would ask the value for its `__class__`, which may lie
        # or raise.
        if kind is Unseen:
            return self.unseen(value)
        if issubclass(kind, tuple):
            return self._inside(value, self.fixed, list(value), depth)
        if issubclass(kind, str):
            return self.text(str.__str__(value))
        if issubclass(kind, int):
            return self.whole(int.__int__(value))
        if issubclass(kind, float):
            return self.walk(float.__float__(value), depth)
        if issubclass(kind, bytes | bytearray | memoryview):
            return self.octets(bytes(value))
        if issubclass(kind, Mapping):
            return self._inside(value, self.mapping, list(value.items()), depth)
        if issubclass(kind, list | deque):
            return self._inside(value, self.items, list(value), depth)
        if issubclass(kind, Set):
            return self._inside(value, self.unordered, list(value), depth)
        fields = fields_of(value, kind)
        if fields is not None:
            return self._inside(value, self.mapping, fields, depth)
        if issubclass(kind, scalars()):
            return self.text(str(value))
        return self.opaque(value, kind)

    def _inside(
        self, owner: object, fill: Callable[[list[Any], int], Any], parts: list[Any], depth: int
    ) -> Any:
        if id(owner) in self._open:
            return self.cyclic(type(owner))
        if depth >= MAX_DEPTH:
            return self.too_deep()
        self._open.add(id(owner))
        try:
            return fill(parts, depth + 1)
        finally:
            self._open.discard(id(owner))

    def text(self, text: str) -> Any:
        """Give a text, cut, cleaned or redacted as the reader needs it."""
        return text

    def whole(self, number: int) -> Any:
        """Give a whole number, of any length."""
        return number

    @abstractmethod
    def not_finite(self, number: float) -> Any:
        """Mark NaN or an infinity."""

    @abstractmethod
    def octets(self, data: bytes) -> Any:
        """Give bytes in the form that the reader knows."""

    @abstractmethod
    def mapping(self, pairs: list[tuple[Any, Any]], depth: int) -> Any:
        """Give a mapping, or the fields of an object; `depth` is that of its values."""

    @abstractmethod
    def items(self, items: list[Any], depth: int) -> Any:
        """Give a list; `depth` is that of its items."""

    def fixed(self, items: list[Any], depth: int) -> Any:
        """Give a tuple; as a list, unless the reader knows tuples."""
        return self.items(items, depth)

    @abstractmethod
    def unordered(self, items: list[Any], depth: int) -> Any:
        """Give a set, in an order that chance does not decide."""

    def unseen(self, value: Unseen) -> Any:
        """Give the stand-in for what another walk could not see."""
        return self.text(str(value))

    @abstractmethod
    def opaque(self, value: object, kind: type) -> Any:
        """Mark an object that shows no fields."""

    @abstractmethod
    def cyclic(self, kind: type) -> Any:
        """Mark a container inside itself."""

    @abstractmethod
    def too_deep(self) -> Any:
        """Mark a container that is nested too deeply."""

    @abstractmethod
    def unreadable(self, kind: type, error: Exception) -> Any:
        """Mark a value whose own code raised."""


def object_text(value: object) -> str:
    """Give the beginning of an object's text, without memory addresses."""
    return re.sub(_ADDRESS, "", str.__str__(str(value))[:_OBJECT_TEXT])
