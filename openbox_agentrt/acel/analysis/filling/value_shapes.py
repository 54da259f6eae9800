"""
Guess what the values look like that conditions read: lists of what, mappings to what, texts or times.

It is guessed from how they are used, to choose values that a session is tried with. Nothing is concluded from
a guess: a value that does not fit makes a condition that cannot be evaluated, which shows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...condition.fact import Fact
from ..patterns.automaton import UnknownPatternError, of_pattern
from ..patterns.shortest_texts import combinations
from .expression import Expression

__all__ = ("Shape", "ShapeReader")

Kind: TypeAlias = Literal["number", "truth", "time"]

_ELEMENT_WISE = ("all", "exists", "exists_one", "filter", "map")
_HELD = ("startsWith", "endsWith", "contains")
_DURATION = re.compile(r"([0-9.]+)(h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


@dataclass(slots=True, eq=False)
class Shape:
    """
    Say what a value looks like.

    Attributes:
        plain: Values that it is compared with.
        kinds: What it is used as.
        given: Values that it has in a trace.
        endings: Texts that are written behind it.
        fields: The entries that it has by name.
        element: An element of it, or a key of it if it is a mapping.
        entry: What stands under any key of it.
        count: How many elements it has.
    """

    plain: dict[str, Any] = field(default_factory=dict)
    kinds: set[Kind] = field(default_factory=set)
    given: dict[str, Any] = field(default_factory=dict)
    endings: dict[str, None] = field(default_factory=dict)
    fields: dict[str, Shape] = field(default_factory=dict)
    element: Shape | None = None
    entry: Shape | None = None
    count: Shape | None = None
    _same: Shape | None = None

    def found(self) -> Shape:
        """Give the one shape that stands for all that look the same."""
        while self._same is not None:
            self = self._same
        return self

    def note(self, value: Any) -> None:
        """Note a value of this shape that stands in a trace, and all that stands in it."""
        own = self.found()
        if isinstance(value, dict):
            for name, inner in value.items():
                if own.entry is not None:
                    own.part("element").note(name)
                shape = own.fields.get(name, own.entry)
                if shape is not None:
                    shape.note(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                own.part("element").note(inner)
        else:
            own.given[repr(value)] = value

    def named(self, name: str) -> Shape:
        """Give the entry of a name."""
        return self.found().fields.setdefault(name, Shape())

    def at(self, path: str) -> Shape:
        """Give what stands at a path."""
        found = self
        for part in path.split("."):
            found = found.part("element") if part == "*" or part.isdigit() else found.named(part)
        return found

    def part(self, which: Literal["element", "entry", "count"]) -> Shape:
        """Give the shape of its elements, of its entries, or of their number."""
        own = self.found()
        if getattr(own, which) is None:
            setattr(own, which, Shape())
        inner: Shape = getattr(own, which)
        return inner

    def join(self, other: Shape) -> None:
        """Let two shapes be one, since their values are compared."""
        own, other = self.found(), other.found()
        if own is other:
            return
        other._same = own
        own.plain |= other.plain
        own.kinds |= other.kinds
        own.endings |= other.endings
        for name, inner in other.fields.items():
            own.found().named(name).join(inner)
        for which in ("element", "entry", "count"):
            inner = getattr(other, which)
            if inner is not None:
                own.found().part(which).join(inner)


class ShapeReader:
    """
    Find out what the values look like that some conditions read.

    Attributes:
        args: Of each tool, its arguments.
        keys: Of each fact by its label, what tells one from another.
        facts: Of each, its values.
        spans: Lengths of time that conditions name, in seconds.
    """

    def __init__(self) -> None:
        self.args: dict[str, Shape] = {}
        self.keys: dict[str, Shape] = {}
        self.facts: dict[str, Shape] = {}
        self.spans: set[float] = set()
        self._args = Shape()
        self._known: Mapping[str, Fact] = {}
        self._variables: dict[str, Shape] = {}

    def read(self, tool: str, condition: Expression, facts: Iterable[Fact]) -> None:
        """Read a condition that is asked of calls of a tool."""
        self._args = self.args.setdefault(tool, Shape())
        self._known = {fact.name: fact for fact in facts}
        self._truth(condition)

    def tell(self, fact: Fact, tool: str) -> None:
        """Take a tool for one whose calls tell a fact."""
        args = self.args.setdefault(tool, Shape())
        key, values = self._of_fact(fact)
        if fact.key is not None and fact.key.of == "args":
            args.at(str(fact.key.path)).join(key)
        for name, source in fact.values:
            if source.of == "args":
                args.at(str(source.path)).join(values.named(name))

    def _of_fact(self, fact: Fact) -> tuple[Shape, Shape]:
        return self.keys.setdefault(fact.label, Shape()), self.facts.setdefault(fact.label, Shape())

    def _truth(self, asked: Expression) -> None:
        self._of(asked).found().kinds.add("truth")

    def _number(self, counted: Expression) -> Shape:
        found = self._of(counted)
        found.found().kinds.add("number")
        return found

    def _of(self, asked: Expression) -> Shape:
        match asked:
            case Expression(kind="value", value=value):
                return Shape(plain={repr(value): value})
            case Expression(kind="name", word=name):
                return self._args if name == "args" else self._variables.get(name, Shape())
            case Expression(kind="field", word=name, parts=(inner,)):
                fact = self._fact(asked)
                return self._of(inner).named(name) if fact is None else self._of_fact(fact)[1]
            case Expression(kind="index", parts=(inner, key)):
                return self._entry(inner, key)
            case Expression(kind="list", parts=parts):
                return Shape(element=self._joined(parts))
            case Expression(kind="map", parts=parts):
                return Shape(element=self._joined(parts[::2]), entry=self._joined(parts[1::2]))
            case Expression(kind="choice", parts=(condition, *either)):
                self._truth(condition)
                return self._joined(either)
            case Expression(kind="call"):
                return self._called(asked)
        return self._operated(asked)

    def _joined(self, parts: Iterable[Expression]) -> Shape:
        found = Shape()
        for part in parts:
            found.join(self._of(part))
        return found

    def _fact(self, asked: Expression) -> Fact | None:
        """Give the fact that is named, if one is."""
        match asked:
            case Expression(kind="field", word=name, parts=(Expression(kind="name", word="facts"),)):
                return self._known.get(name)
        return None

    def _entry(self, inner: Expression, key: Expression) -> Shape:
        fact = self._fact(inner)
        if fact is not None:
            of_fact, values = self._of_fact(fact)
            of_fact.join(self._of(key))
            return values
        if key.kind == "value" and isinstance(key.value, str):
            return self._of(inner).named(key.value)
        found, place = self._of(inner), self._of(key)
        numbers = [value for value in place.found().plain.values() if isinstance(value, int)]
        if numbers or "number" in place.found().kinds:
            return found.part("element")
        found.part("element").join(place)
        return found.part("entry")

    def _called(self, asked: Expression) -> Shape:
        match asked:
            case Expression(
                word=word, parts=(inner, Expression(kind="name", word=name), *bodies), is_on=True
            ) if word in _ELEMENT_WISE:
                return self._each(word, self._of(inner), name, bodies)
            case Expression(word="size", parts=(inner,)):
                self._of(inner).part("count").found().kinds.add("number")
                return self._of(inner).part("count")
            case Expression(word="sum" | "distinct", parts=(inner,)):
                if asked.word == "sum":
                    self._of(inner).part("element").found().kinds.add("number")
                return Shape(kinds={"number"}) if asked.word == "sum" else self._of(inner)
            case Expression(word="timestamp", parts=(inner,)):
                return self._time(inner)
            case Expression(word="duration", parts=(Expression(kind="value", value=str() as text),)):
                self.spans.add(sum(float(n) * _SECONDS[unit] for n, unit in _DURATION.findall(text)))
                return Shape()
            case Expression(
                word=word, parts=(inner, Expression(kind="value", value=str() as text)), is_on=True
            ):
                found = self._of(inner).found()
                found.plain |= {repr(some): some for some in _fitting(word, text)}
                return Shape()
        return (
            self._joined(asked.parts)
            if asked.word in ("int", "double", "string")
            else self._apart(asked.parts)
        )

    def _apart(self, parts: Iterable[Expression]) -> Shape:
        for part in parts:
            self._of(part)
        return Shape()

    def _each(self, word: str, inner: Shape, name: str, bodies: list[Expression]) -> Shape:
        before, self._variables = self._variables, {**self._variables, name: inner.part("element")}
        for body in bodies if word != "map" else bodies[:-1]:
            self._truth(body)
        made = self._of(bodies[-1]) if word == "map" else Shape()
        self._variables = before
        if word == "filter":
            # How many are left says how many there have to be.
            return Shape(element=inner.part("element"), count=inner.part("count"))
        return Shape(element=made, count=inner.part("count")) if word == "map" else Shape()

    def _time(self, inner: Expression) -> Shape:
        match inner:
            case Expression(word="+", parts=(begins, Expression(kind="value", value=str() as ending))):
                found = self._of(begins).found()
                found.endings[ending] = None
            case _:
                found = self._of(inner).found()
        found.kinds.add("time")
        return Shape()

    def _operated(self, asked: Expression) -> Shape:
        match asked.word:
            case "&&" | "||" | "!":
                for part in asked.parts:
                    self._truth(part)
                return Shape()
            case "in":
                self._in(*asked.parts)
                return Shape()
            case "+" | "-" | "*" | "/" | "%":
                return self._calculated(asked)
        self._joined(asked.parts)
        return Shape()

    def _calculated(self, asked: Expression) -> Shape:
        made = Shape(kinds={"number"})
        for part in asked.parts:
            plain = self._of(part) if _is_of_times(part) else self._number(part)
            made.plain |= plain.found().plain if part.kind == "value" else {}
        return made

    def _in(self, one: Expression, among: Expression) -> None:
        fact = self._fact(among)
        every = self._of_fact(fact)[0] if fact is not None else self._of(among).part("element")
        every.join(self._of(one))


def _is_of_times(asked: Expression) -> bool:
    return asked.word in ("now", "timestamp", "duration")


def _fitting(word: str, text: str) -> Iterable[str]:
    """Give texts for which a test of a text holds."""
    if word in _HELD:
        return (text, f"{text}x" if word != "endsWith" else f"x{text}")
    if word != "matches":
        return ()
    try:
        found = combinations([of_pattern(text)], alone=set())
    except UnknownPatternError:
        # A text that is tried all the same may fit it.
        return ()
    return [some for hits, some in found.texts.items() if hits[0]]
