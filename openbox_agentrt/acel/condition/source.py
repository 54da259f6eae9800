"""
The text of a condition: which names it reads, and what is evaluated in its place.

CEL has no records whose fields are known, and copies every map that it is given. So that a fact is found by
its key, however it is spelt, and nothing else is copied, ``facts.order[x]`` is evaluated as
``fact("order", x)`` and ``x in facts.order`` as ``known("order", x)``. The text is read as CEL's tokens and
has been accepted by its parser before, so all that is looked for is names and the brackets after them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ..._values import dataclass, field
from .fact import Fact

VARIABLES: Final = ("args", "facts", "now", "session", "subject")
"""The names that a condition may read."""

# Compiled when they are used: that takes longer than all else here, and a hook is a process for each call.
_compiled: Callable[[str], re.Pattern[str]] = functools.cache(re.compile)

_TOKEN = r"""(?x)
    (?P<blank>\s+|//[^\n]*)
    |(?P<text>
        [bB]?[rR][bB]?(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"{3}(?:\\[\s\S]|[^\\])*?\"{3}|'{3}(?:\\[\s\S]|[^\\])*?'{3}
            |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    )
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`\n]*`)
    |(?P<number>[0-9](?:[eE][+-]|[A-Za-z0-9_.])*)
    |(?P<mark>&&|\|\||[<>=!]=|[\s\S])
    """
_PLAIN_TEXT = r"""(["'])([^"'\\]*)\1"""
_CLOSES = {"[": "]", "(": ")", "{": "}"}
_OPENS = {close: open_ for open_, close in _CLOSES.items()}
# Of these, the operand before them reaches further to the left than the one before `in` is read.
_TIGHTER = frozenset("+-*/%!.")


class ConditionError(ValueError):
    """A condition is not understood. It names the condition, or the place in it."""


@dataclass(slots=True)
class Reads:
    """
    Say what a condition reads.

    Attributes:
        rewritten: The text that is evaluated.
        form: Its tokens, which are the same however it is spaced.
        line: The condition in one line, without comments.
        args: The arguments that it names; None if it reads them all.
        facts: The facts.
        tools: The tools whose calls it counts.
        now: Whether it asks for the time.
        subject: Whether it asks for whom the run is.
    """

    rewritten: str = ""
    form: str = ""
    line: str = ""
    args: set[str] | None = field(default_factory=set)
    facts: set[str] = field(default_factory=set)
    tools: set[str] = field(default_factory=set)
    now: bool = False
    subject: bool = False

    @property
    def changing(self) -> bool:
        """Tell whether it may be another answer later, for the same call."""
        return self.now or bool(self.facts or self.tools)


class ConditionToken(NamedTuple):
    """A piece of a condition; its kind is ``text``, ``name``, ``number``, ``mark`` or ``blank``."""

    kind: str
    text: str


def tokens_of(text: str) -> list[ConditionToken]:
    """Split a condition into its tokens, blanks and comments among them."""
    return [ConditionToken(str(match.lastgroup), match[0]) for match in _compiled(_TOKEN).finditer(text)]


def read_source(text: str, facts: Mapping[str, Fact]) -> Reads:
    """
    Find the names in a condition that CEL accepts.

    Args:
        text: The condition.
        facts: The facts that are declared, by name.

    Raises:
        ConditionError: It reads something that is not there.
    """
    return _Source(text, facts).read()


class _Source:
    """Hold the tokens of a condition, and what each of them becomes."""

    def __init__(self, text: str, facts: Mapping[str, Fact]) -> None:
        found = tokens_of(text)
        # Comments and blanks separate; nothing else about them matters.
        self._tokens = [token for token in found if token.kind != "blank"]
        self._out = [token.text for token in self._tokens]
        self._facts = facts
        line = "".join(" " if token.kind == "blank" else token.text for token in found)
        self._reads = Reads(form=" ".join(self._out), line=" ".join(line.split()))

    def read(self) -> Reads:
        for place, token in enumerate(self._tokens):
            if token.kind == "name" and token.text in VARIABLES and self._text(place - 1) != ".":
                self._variable(place, token.text)
        self._reads.rewritten = " ".join(part for part in self._out if part)
        return self._reads

    def _variable(self, place: int, name: str) -> None:
        reads = self._reads
        match name:
            case "args":
                named = self._named(place)
                if named is None:
                    reads.args = None
                elif reads.args is not None:
                    reads.args.add(named)
            case "session":
                tool = self._named(place)
                if tool is None:
                    raise ConditionError(
                        "session must be followed by the name of a tool, as in session.refund"
                    )
                reads.tools.add(tool)
            case "facts":
                self._fact(place)
            case "now":
                reads.now = True
            case _:
                reads.subject = True

    def _fact(self, place: int) -> None:
        name = self._text(place + 2) if self._text(place + 1) == "." else ""
        if name not in self._facts:
            declared = ", ".join(sorted(self._facts)) or "none"
            what = f"unknown fact {name!r:.80}" if name else "facts must be followed by the name of one"
            raise ConditionError(f"{what}, declared are: {declared:.200}")
        self._reads.facts.add(name)
        if self._facts[name].key is None:
            if self._is_taken_as_keyed(place):
                raise ConditionError(f"facts.{name} has no key: write facts.{name}.value, or give it a key")
            self._put(place, f'fact("{name}","")', "", "")
            self._check_value(name, place + 2)
        elif self._text(place + 3) == "[":
            end = self._close(place + 3)
            self._put(place, f'fact("{name}",', "", "", "(")
            self._out[end] = "))"
            self._check_value(name, end)
        elif self._text(place - 1) == "in":
            self._known(place, name)
        else:
            raise ConditionError(f"facts.{name} has a key: facts.{name}[key], or key in facts.{name}")

    def _is_taken_as_keyed(self, place: int) -> bool:
        """Tell whether a key is looked up in a fact that has none, which would never be found."""
        after = self._text(place + 3)
        return self._named(place + 2) is None and (after == "[" or self._text(place - 1) == "in")

    def _known(self, place: int, name: str) -> None:
        start = self._operand(place - 1)
        if start < 0 or self._text(start - 1) in _TIGHTER:
            raise ConditionError(f"put what stands before 'in facts.{name}' in parentheses")
        self._out[start] = f'known("{name}",({self._out[start]}'
        self._put(place - 1, "))", "", "", "")

    def _operand(self, end: int) -> int:
        """Find where the names, brackets and dots begin that end before a token; -1 if there are none."""
        place = end - 1
        while place >= 0:
            if self._text(place) in _OPENS:
                place = self._open(place)
                # What is called or looked into stands before the bracket.
                if self._text(place) != "{" and self._is_operand(place - 1):
                    place -= 1
                    continue
            elif self._tokens[place].kind not in ("name", "text", "number"):
                return -1
            if self._text(place - 1) != ".":
                return place
            place -= 2
        return -1

    def _is_operand(self, place: int) -> bool:
        if place < 0:
            return False
        named = self._tokens[place].kind in ("name", "text") and self._text(place) != "in"
        return named or self._text(place) in _OPENS

    def _check_value(self, name: str, place: int) -> None:
        value, names = self._named(place), self._facts[name].names
        if value is not None and value not in names:
            has = ", ".join(sorted(names)) or "none"
            raise ConditionError(f"fact {name!r} has no value {value!r:.80}, it has {has:.200}")

    def _named(self, place: int) -> str | None:
        """Read the name that follows a token, as ``.name`` or as ``["name"]``; None if none does."""
        if self._text(place + 1) == "." and place + 2 < len(self._tokens):
            return self._text(place + 2).strip("`")
        if self._text(place + 1) == "[" and self._text(place + 3) == "]":
            plain = _compiled(_PLAIN_TEXT).fullmatch(self._text(place + 2))
            return None if plain is None else plain[2]
        return None

    def _close(self, place: int) -> int:
        depth = 0
        for end in range(place, len(self._tokens)):
            depth += (self._text(end) in _CLOSES) - (self._text(end) in _OPENS)
            if not depth:
                return end
        raise ConditionError("a bracket is not closed")

    def _open(self, place: int) -> int:
        depth = 0
        for start in range(place, -1, -1):
            depth += (self._text(start) in _OPENS) - (self._text(start) in _CLOSES)
            if not depth:
                return start
        raise ConditionError("a bracket is not opened")

    def _text(self, place: int) -> str:
        return self._tokens[place].text if 0 <= place < len(self._tokens) else ""

    def _put(self, place: int, *texts: str) -> None:
        self._out[place : place + len(texts)] = texts
