"""
Reading one field out of a call's arguments, by name or by path.

``payment.amount`` is the entry "amount" of the entry "payment"; a number is a position in a list; ``*`` is
every element, so that ``items.*.amount`` means the amounts of all items, and ``*`` alone all arguments.
An argument that is literally named "payment.amount" is found as well. If both are there, neither
is read: which of the two the tool will use is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

from ..._picklable import PicklableError
from ..._plain.arguments import plain_value
from ..._plain.unseen import Unseen
from ..wording import shown

EACH = "*"
"""The part of a path that means every element of a list, or every entry of a mapping."""

_LEAVES = (str, int, float, bytes, type(None))


class _Missing:
    """Stand for a value that is not there. It is none that anything else could be."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING: Final = _Missing()


class FieldError(ValueError):
    """A field is missing or cannot be used. It names the field, never its value."""

    def kept(self) -> Self:
        """Give it as an answer to keep: without the frames that it came through, which hold the call."""
        self.__traceback__ = self.__context__ = None
        return self


class UnreadableError(PicklableError, FieldError):
    """A field is there, and nobody can look into it. What needs it takes its strict side."""

    def __init__(self, name: str, unseen: Unseen) -> None:
        self.name = name
        self.unseen = unseen
        super().__init__(f"{name} cannot be looked into ({unseen.why})")


class FieldPath:
    """
    A field's name or path, checked once and read often.

    Attributes:
        text: The path as it is written.
        many: Whether it means several values: a part of it is ``*``.
        plain: Whether it is one name, so that a value can be had without asking for it here.
    """

    __slots__ = ("_parts", "many", "plain", "text")

    def __init__(self, text: object) -> None:
        if not isinstance(text, str) or not text or any(not part for part in text.split(".")):
            raise ValueError(f"a field must be a name or a dotted path, got {shown(text)}")
        self.text: str = text
        self._parts = tuple(text.split("."))
        self.many = EACH in self._parts
        self.plain = len(self._parts) == 1 and not self.many

    def read(self, args: Mapping[str, Any]) -> Any:
        """
        Find the field's value, or the list of its values if it means `many`.

        Raises:
            FieldError: It is missing, also in one of many, or there are two.
            UnreadableError: Something on the way to it cannot be looked into.
        """
        if self.plain:
            try:
                return args[self.text]
            except KeyError:
                raise FieldError(f"{self.text} is missing") from None
        values = self.find(args)
        missing = any(value is MISSING for value in values)
        if self.text in args:
            if not missing:
                raise FieldError(f"{self.text} is there twice, as a name and as a path")
            return [args[self.text]] if self.many else args[self.text]
        if missing:
            raise FieldError(f"{self.text} is missing{' in one of them' if len(values) > 1 else ''}")
        return values if self.many else values[0]

    def find(self, args: Mapping[str, Any]) -> list[Any]:
        """
        Find everything that the path means, with `MISSING` where it ends early.

        Raises:
            UnreadableError: Something on the way to it cannot be looked into.
        """
        if not self.many:
            value: Any = args
            for part in self._parts:
                (value,) = self._step(value, part)
            return [value]
        values: list[Any] = [args]
        for part in self._parts:
            values = [found for value in values for found in self._step(value, part)]
        return values

    def names(self, args: Mapping[str, Any]) -> Iterator[str]:
        """Give the names under which the values stand, where the path ends in ``*``: they are texts too."""
        if self._parts[-1] != EACH:
            return
        for owner in self._reach(args, self._parts[:-1]):
            if isinstance(owner, Mapping):
                yield from (name for name in owner if isinstance(name, str))

    def reach(self, value: Any) -> Iterator[Any]:
        """Give everything that the path means in a value. What is missing, or cannot be seen, is left out."""
        return self._reach(value, self._parts)

    def _reach(self, value: Any, parts: tuple[str, ...]) -> Iterator[Any]:
        if not parts:
            yield value
            return
        try:
            found = self._step(value, parts[0])
        except UnreadableError:
            return
        for inner in found:
            if inner is not MISSING:
                yield from self._reach(inner, parts[1:])

    def _step(self, value: Any, part: str) -> Iterable[Any]:
        if value is MISSING:
            return [MISSING]
        if not isinstance(value, (Mapping, list, tuple, *_LEAVES)):
            # An object of a class: what is seen of it is what contracts see of arguments.
            value = plain_value(value)
        if isinstance(value, Unseen):
            raise UnreadableError(self.text, value)
        if isinstance(value, Mapping):
            return list(value.values()) if part == EACH else [value.get(part, MISSING)]
        if not isinstance(value, (list, tuple)):
            return [MISSING]
        if part == EACH:
            return value
        place = int(part) if part.isascii() and part.isdigit() and len(part) <= 9 else len(value)
        return [value[place] if place < len(value) else MISSING]
