"""
The texts of conditions whose answers a few values of arguments show.

Such a condition compares arguments with values that it names, one argument at a time: ``args.reason in ["a",
"b"] && args.amount <= 500``. Between the values that it names, all are alike. So with those, with one between
any two and one beyond each, every answer that it can give is tried. All others are not understood here.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..condition.source import tokens_of

__all__ = ("ComparedValues", "NotUnderstoodError", "values_in")

# Of the texts, numbers and names of CEL, those that mean what they say.
_PLAIN = {
    "text": re.compile(r"""\"[^"\\]*"|'[^'\\]*'"""),
    "number": re.compile(r"[0-9]+(?:\.[0-9]+)?"),
    "name": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
}
_COMPARED = ("==", "!=", "<", "<=", ">", ">=")
_ASKED = ("startsWith", "endsWith", "contains")
_OTHER = "other"
# Of a type that no condition of these compares with anything.
_OF_NO_TYPE = None


class NotUnderstoodError(ValueError):
    """A condition says something that is not known here."""


@dataclass(slots=True)
class ComparedValues:
    """
    Hold what some conditions compare one argument with.

    Attributes:
        plain: ComparedValues that it is compared with for equality.
        bounds: Numbers that it is above or below.
        parts: Texts that it has in it, at its beginning or at its end.
        sizes: Numbers that its size is compared with.
    """

    plain: dict[str, Any] = field(default_factory=dict)
    bounds: set[int | float] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)

    def join(self, other: ComparedValues) -> None:
        """Take what the same argument is compared with elsewhere."""
        self.plain |= other.plain
        self.bounds |= other.bounds
        self.parts |= other.parts
        self.sizes |= other.sizes

    @property
    def whole(self) -> bool:
        """Whether the values that are tried show every answer."""
        kinds = bool(self.bounds) + bool(self.sizes) + bool(self.parts)
        return kinds < 2 and len(self.parts) < 2 and not (self.sizes and self.plain)

    @property
    def are_texts(self) -> bool:
        """Whether all that it is compared with are whole texts."""
        others = self.bounds or self.sizes or self.parts
        return not others and all(isinstance(value, str) for value in self.plain.values())

    def tried(self) -> list[Any]:
        """List the values that are tried, those that read best first."""
        found = [*self.plain.values(), *_around(self.bounds, self.plain.values()), *_of_size(self.sizes)]
        for part in sorted(self.parts):
            found += [part, f"{part}x", f"x{part}", f"x{part}x"]
        if not self.bounds and not self.sizes:
            found.append(next(text for text in _others() if text not in found))
        found.append(_OF_NO_TYPE)
        return list({(type(value), repr(value)): value for value in found}.values())


def values_in(text: str) -> dict[str, ComparedValues]:
    """
    Find what a condition compares each argument with.

    Raises:
        NotUnderstoodError: It is not of this kind.
    """
    reader = _Reader(text)
    reader.either()
    reader.end()
    return reader.found


class _Reader:
    """Read a condition from its first token to its last."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = [token for token in tokens_of(text) if token.kind != "blank"]
        self._tokens.append(("end", ""))
        self.found: dict[str, ComparedValues] = {}

    def either(self) -> None:
        self._both()
        while self._takes("||"):
            self._both()

    def end(self) -> None:
        if self._tokens[0][0] != "end":
            raise NotUnderstoodError(self._tokens[0][1])

    def _both(self) -> None:
        self._one()
        while self._takes("&&"):
            self._one()

    def _one(self) -> None:
        if self._takes("!"):
            self._one()
        elif self._takes("("):
            self.either()
            self._needs(")")
        elif self._takes("has"):
            self._needs("(")
            self._of(self._path())
            self._needs(")")
        elif self._takes("size"):
            self._needs("(")
            path = self._path()
            self._needs(")")
            self._compared_size(path)
        elif self._tokens[0][1] == "args":
            self._about(self._path())
        else:
            value = self._value()
            self._compared(self._next(_COMPARED), value, self._path())

    def _about(self, path: str) -> None:
        word = self._tokens[0][1]
        if word == "in":
            self._take()
            self._of(path).plain.update({repr(value): value for value in self._list()})
        elif word in _COMPARED:
            self._take()
            self._compared(word, self._value(), path)
        elif word == "(" and path.rpartition(".")[2] in _ASKED:
            self._take()
            text = self._value()
            self._needs(")")
            if not isinstance(text, str) or not text:
                raise NotUnderstoodError(word)
            self._of(path.rpartition(".")[0]).parts.add(text)
        else:
            # By itself, it is true or false.
            self._of(path).plain.update({"True": True, "False": False})

    def _compared(self, how: str, value: Any, path: str) -> None:
        if how in ("==", "!="):
            self._of(path).plain[repr(value)] = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._of(path).bounds.add(value)
        else:
            raise NotUnderstoodError(how)

    def _compared_size(self, path: str) -> None:
        self._next(_COMPARED)
        size = self._value()
        if type(size) is not int or size > 64:
            raise NotUnderstoodError("size")
        self._of(path).sizes.add(size)

    def _of(self, path: str) -> ComparedValues:
        if "." not in path or not path.startswith("args."):
            raise NotUnderstoodError(path)
        return self.found.setdefault(path.removeprefix("args."), ComparedValues())

    def _path(self) -> str:
        names = [self._name()]
        while self._takes("."):
            names.append(self._name())
        if names[0] != "args" or len(names) < 2:
            raise NotUnderstoodError(".".join(names))
        return ".".join(names)

    def _name(self) -> str:
        kind, word = self._take()
        if kind != "name":
            raise NotUnderstoodError(word)
        return word

    def _list(self) -> Iterator[Any]:
        self._needs("[")
        yield self._value()
        while self._takes(","):
            yield self._value()
        self._needs("]")

    def _value(self) -> Any:
        if self._takes("-"):
            value = self._value()
            if isinstance(value, str | bool):
                raise NotUnderstoodError("-")
            return -value
        kind, word = self._take()
        if kind in ("text", "number"):
            return ast.literal_eval(word)
        if word in ("true", "false"):
            return word == "true"
        raise NotUnderstoodError(word)

    def _next(self, words: Iterable[str]) -> str:
        word = self._take()[1]
        if word not in words:
            raise NotUnderstoodError(word)
        return word

    def _needs(self, mark: str) -> None:
        self._next((mark,))

    def _takes(self, word: str) -> bool:
        taken = self._tokens[0][1] == word and self._tokens[0][0] != "text"
        if taken:
            self._take()
        return taken

    def _take(self) -> tuple[str, str]:
        kind, word = self._tokens.pop(0) if len(self._tokens) > 1 else self._tokens[0]
        if kind in _PLAIN and not _PLAIN[kind].fullmatch(word):
            raise NotUnderstoodError(word)
        return kind, word


def _around(bounds: Iterable[int | float], plain: Iterable[Any]) -> Iterator[int | float]:
    """Give numbers at some bounds, between any two and beyond each."""
    if not (found := sorted(bounds)):
        return
    numbers = (value for value in plain if isinstance(value, int | float) and not isinstance(value, bool))
    ordered = sorted({*found, *numbers})
    yield from found
    yield ordered[0] - 1
    yield ordered[-1] + 1
    yield from ((one + other) / 2 for one, other in itertools.pairwise(ordered))


def _of_size(sizes: Iterable[int]) -> Iterator[tuple[str, ...]]:
    counts = sorted({count for size in sizes for count in (size, size - 1, size + 1, 0) if count >= 0})
    yield from (("x",) * count for count in counts)


def _others() -> Iterator[str]:
    return (_OTHER if not number else f"{_OTHER} {number}" for number in itertools.count())
