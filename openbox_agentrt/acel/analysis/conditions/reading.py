"""
The texts of conditions: which parts a few values show every answer of, and which are left open.

A condition is made of parts by "and", "or" and "not". A part is understood that compares an argument, or what
a call has told, with values or with one another: ``args.reason in ["a", "b"]``, ``facts.order[args.id].total
>= args.amount``. So is one that compares how many calls of a tool succeeded with a number. All others are
open.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ...._plain.digest import text_digest
from ...condition.fact import Fact
from ...condition.source import ConditionToken
from .compared_values import ComparedValues, ReadPlace
from .token_reader import END, NotUnderstoodError, TokenReader, without_blanks

__all__ = ("ConditionReading", "read_condition")

# Of the texts, numbers and names of CEL, those that mean what they say.
_PLAIN = {
    "text": re.compile(r"""\"[^"\\]*"|'[^'\\]*'"""),
    "number": re.compile(r"[0-9]+(?:\.[0-9]+)?"),
    "name": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
}
_COMPARED = ("==", "!=", "<", "<=", ">", ">=")
_ASKED = ("startsWith", "endsWith", "contains")
_OPENS, _CLOSES = "([{", ")]}"

_Tokens: TypeAlias = Sequence[ConditionToken]


@dataclass(slots=True)
class ConditionReading:
    """
    Hold what is understood of a condition.

    Attributes:
        compared: What each place that it reads is compared with.
        links: Places that are compared with one another, and whether by which is more.
        keys: Of each fact by its label, the arguments that say which one is meant.
        told: The labels of the facts that it reads.
        counts: Of each tool, the numbers that its successful calls are compared with.
        open: The parts that are not understood, by the names of arguments that hold their answers.
        text: The condition, with such an argument in the place of each of them.
    """

    compared: dict[ReadPlace, ComparedValues] = field(default_factory=dict)
    links: dict[tuple[ReadPlace, ReadPlace], bool] = field(default_factory=dict)
    keys: dict[str, set[str]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    counts: dict[str, set[int]] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def take(self, other: ConditionReading) -> None:
        """Take what another part says."""
        for place, values in other.compared.items():
            self.compared.setdefault(place, ComparedValues()).join(values)
        for pair, more in other.links.items():
            self.links[pair] = self.links.get(pair, False) or more
        for label, paths in other.keys.items():
            self.keys.setdefault(label, set()).update(paths)
        for tool, numbers in other.counts.items():
            self.counts.setdefault(tool, set()).update(numbers)
        self.told |= other.told


def read_condition(text: str, facts: Mapping[str, Fact]) -> ConditionReading:
    """
    Read a condition into the parts that a search can follow, and those that stay open.

    Args:
        text: The condition, as CEL accepts it.
        facts: The facts that it may read.

    Raises:
        NotUnderstoodError: It is not made of parts by "and", "or" and "not".
    """
    tokens = without_blanks(text)
    if any(token.text == "?" for token in tokens):
        raise NotUnderstoodError("?")
    found = ConditionReading()
    found.text = " ".join(_split(tokens, facts, found))
    return found


def _split(tokens: _Tokens, facts: Mapping[str, Fact], found: ConditionReading) -> Iterator[str]:
    """Read a condition part by part, and write it again."""
    start = depth = 0
    for place, token in enumerate((*tokens, END)):
        depth += _deeper(token)
        if token.kind == "end" or (not depth and token.text in ("&&", "||")):
            yield from _one(tokens[start:place], facts, found)
            yield from [] if token.kind == "end" else [token.text]
            start = place + 1


def _one(tokens: _Tokens, facts: Mapping[str, Fact], found: ConditionReading) -> Iterator[str]:
    if len(tokens) > 1 and tokens[0].text == "!" and _is_enclosed(tokens[1:]):
        yield "!"
        tokens = tokens[1:]
    if _is_enclosed(tokens):
        yield "("
        yield from _split(tokens[1:-1], facts, found)
        yield ")"
        return
    part, form = _Part(tokens, facts), " ".join(token.text for token in tokens)
    try:
        part.read()
    except NotUnderstoodError:
        name = f"open {text_digest(form)[:16]}"
        found.open[name] = form
        yield f'args["{name}"]'
        return
    found.take(part.found)
    yield form


def _is_enclosed(tokens: _Tokens) -> bool:
    """Tell whether the first token opens a bracket that the last one closes."""
    if not tokens or tokens[0].text != "(":
        return False
    depth = 0
    for place, token in enumerate(tokens):
        depth += _deeper(token)
        if not depth:
            return place == len(tokens) - 1
    return False


def _deeper(token: ConditionToken) -> int:
    """Say by how many brackets deeper the text is after a token."""
    return (token.text in _OPENS) - (token.text in _CLOSES) if token.kind == "mark" else 0


class _Part(TokenReader):
    """Read a part of a condition from its first token to its last."""

    def __init__(self, tokens: _Tokens, facts: Mapping[str, Fact]) -> None:
        super().__init__(tokens)
        self._facts = facts
        self.found = ConditionReading()

    def read(self) -> None:
        while self._takes("!"):
            pass
        if self._is_called("has"):
            self._of(self._enclosed_place())
        elif self._is_called("size"):
            place = self._enclosed_place()
            self._compared_size(place)
        elif self._next.text == "session":
            self._count(*self._compared_count())
        elif self._next.text in ("args", "facts"):
            self._about(self._place())
        else:
            self._from_the_right()
        if self._next.kind != "end":
            raise NotUnderstoodError(self._next.text)

    def _about(self, place: ReadPlace) -> None:
        word = self._next.text
        if word == "in":
            self._take()
            if self._next.text == "facts":
                self._known(place)
            else:
                self._of(place).plain.update({repr(value): value for value in self._list()})
        elif word in _COMPARED:
            self._take()
            self._compared(word, place)
        elif word == ".":
            self._take()
            self._needs_one(_ASKED)
            self._needs("(")
            text = self._value()
            self._needs(")")
            if not isinstance(text, str) or not text:
                raise NotUnderstoodError(word)
            self._of(place).parts.add(text)
        else:
            # By itself, it is true or false.
            self._of(place).plain.update({"True": True, "False": False})

    def _from_the_right(self) -> None:
        """Read a comparison whose value stands first."""
        value = self._value()
        how = self._needs_one(_COMPARED)
        if self._next.text == "session":
            self._count(self._counted(), value)
        else:
            self._compare(how, self._place(), value)

    def _compared(self, how: str, place: ReadPlace) -> None:
        if self._next.text not in ("args", "facts"):
            self._compare(how, place, self._value())
            return
        other = self._place()
        self._of(place)
        self._of(other)
        pair = (place, other) if place < other else (other, place)
        self.found.links[pair] = how not in ("==", "!=")

    def _compare(self, how: str, place: ReadPlace, value: Any) -> None:
        if how in ("==", "!="):
            self._of(place).plain[repr(value)] = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._of(place).bounds.add(value)
        else:
            raise NotUnderstoodError(how)

    def _compared_size(self, place: ReadPlace) -> None:
        self._needs_one(_COMPARED)
        size = self._value()
        if type(size) is not int or size > 64:
            raise NotUnderstoodError("size")
        self._of(place).sizes.add(size)

    def _compared_count(self) -> tuple[str, Any]:
        tool = self._counted()
        self._needs_one(_COMPARED)
        return tool, self._value()

    def _counted(self) -> str:
        self._needs("session")
        self._needs(".")
        return self._name()

    def _count(self, tool: str, number: Any) -> None:
        if type(number) is not int or not 0 <= number <= 64:
            raise NotUnderstoodError("session")
        self.found.counts.setdefault(tool, set()).add(number)

    def _known(self, place: ReadPlace) -> None:
        self._needs("facts")
        self._needs(".")
        fact = self._fact(self._name())
        if fact.key is None or place.of != "args":
            raise NotUnderstoodError("in")
        self.found.keys.setdefault(fact.label, set()).add(place.name)

    def _of(self, place: ReadPlace) -> ComparedValues:
        return self.found.compared.setdefault(place, ComparedValues())

    def _enclosed_place(self) -> ReadPlace:
        self._take()
        self._needs("(")
        place = self._place()
        self._needs(")")
        return place

    def _place(self) -> ReadPlace:
        if self._takes("args"):
            return ReadPlace("args", self._path())
        self._needs("facts")
        self._needs(".")
        fact = self._fact(self._name())
        if fact.key is not None:
            self._needs("[")
            self._needs("args")
            self.found.keys.setdefault(fact.label, set()).add(self._path())
            self._needs("]")
        self._needs(".")
        value = self._name()
        source = dict(fact.values).get(value)
        if source is None or "*" in (source.path or "").split("."):
            raise NotUnderstoodError(value)
        return ReadPlace("fact", fact.label, value)

    def _path(self) -> str:
        names = []
        while self._next.text == "." and self._tokens[self._at + 1].text not in _ASKED:
            self._take()
            names.append(self._name())
        if not names:
            raise NotUnderstoodError("args")
        return ".".join(names)

    def _fact(self, name: str) -> Fact:
        if name not in self._facts:
            raise NotUnderstoodError(name)
        self.found.told.add(self._facts[name].label)
        return self._facts[name]

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

    def _is_called(self, word: str) -> bool:
        return self._next.text == word and self._tokens[self._at + 1].text == "("

    def _take(self) -> ConditionToken:
        token = super()._take()
        if token.kind in _PLAIN and not _PLAIN[token.kind].fullmatch(token.text):
            raise NotUnderstoodError(token.text)
        return token
