"""
Patterns as small automata: what one pattern needs of a text, one character after another.

An automaton has states, steps over sets of characters, and free steps that hold only at a place: at the
beginning of the text, at its end, or between a letter and something else. A pattern is searched for and not
matched whole, so its first and its last state loop, unless it is a pattern over names.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from re import _constants as sre  # type: ignore[attr-defined]  # what a pattern is made of has no other reader
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Literal, TypeAlias

__all__ = ("Automaton", "Place", "UnknownPatternError", "is_word", "of_name", "of_pattern")

Place: TypeAlias = Literal["begin", "end", "boundary", "inside"]

PRINTABLE = frozenset(map(chr, range(32, 127)))
_MAX_STATES = 4000
_DIGITS = frozenset("0123456789")
_WORD = frozenset(c for c in PRINTABLE if c.isalnum() or c == "_")
_SPACE = frozenset(" \t\n\r\f\v")
_CATEGORIES = {
    sre.CATEGORY_DIGIT: (_DIGITS, False),
    sre.CATEGORY_NOT_DIGIT: (_DIGITS, True),
    sre.CATEGORY_WORD: (_WORD, False),
    sre.CATEGORY_NOT_WORD: (_WORD, True),
    sre.CATEGORY_SPACE: (_SPACE, False),
    sre.CATEGORY_NOT_SPACE: (_SPACE, True),
}
_PLACES: dict[Any, Place] = {
    sre.AT_BEGINNING: "begin",
    sre.AT_BEGINNING_STRING: "begin",
    sre.AT_END: "end",
    sre.AT_BOUNDARY: "boundary",
    sre.AT_NON_BOUNDARY: "inside",
}


class UnknownPatternError(ValueError):
    """A pattern has something in it whose texts are not known here. Nothing is said about it."""


def is_word(character: str) -> bool:
    """Tell whether a character is one of a word, as RE2 sees it."""
    return character in _WORD


@dataclass(slots=True)
class Automaton:
    """
    One pattern, taken apart.

    Attributes:
        steps: Of each state, which characters lead where: a set, and whether it is of those that do not.
        free: Of each state, what it also is, and at which place only.
        accepts: The state in which the pattern was found.
        letters: The characters that the pattern tells from others.
    """

    steps: list[list[tuple[frozenset[str], bool, int]]] = field(default_factory=list)
    free: list[list[tuple[Place | None, int]]] = field(default_factory=list)
    accepts: int = 0
    letters: set[str] = field(default_factory=set)

    def state(self) -> int:
        """Add a state without steps."""
        if len(self.steps) >= _MAX_STATES:
            raise UnknownPatternError("the pattern is too large")
        self.steps.append([])
        self.free.append([])
        return len(self.steps) - 1

    def step(self, start: int, letters: Iterable[str], *, other: bool = False) -> int:
        """Add a state that is reached over one of `letters`, or with `other` over all but these."""
        end, some = self.state(), frozenset(letters)
        self.steps[start].append((some, other, end))
        self.letters |= some
        return end

    def loop(self, state: int) -> None:
        """Let a state stay where it is, whatever comes."""
        self.steps[state].append((frozenset(), True, state))

    def closure(self, states: frozenset[int], places: frozenset[Place]) -> frozenset[int]:
        """Find the states that are reached without a character at a place."""
        seen, waiting = set(states), list(states)
        while waiting:
            for place, after in self.free[waiting.pop()]:
                if after not in seen and (place is None or place in places):
                    seen.add(after)
                    waiting.append(after)
        return frozenset(seen)

    def after(self, states: frozenset[int], character: str) -> frozenset[int]:
        """Find the states after one character."""
        return frozenset(
            end
            for state in states
            for letters, other, end in self.steps[state]
            if (character in letters) is not other
        )


@functools.lru_cache(maxsize=4096)
def of_pattern(pattern: str) -> Automaton:
    """
    Make the automaton that finds a pattern of a matcher anywhere in a text, whatever the case.

    Raises:
        UnknownPatternError: It has something in it that is not known here.
    """
    try:
        parsed = _parser.parse(pattern)
    except Exception as error:
        raise UnknownPatternError("the pattern is written in a way that is not known here") from error
    if parsed.state.flags & ~sre.SRE_FLAG_UNICODE:
        raise UnknownPatternError("the pattern has flags")
    made = Automaton()
    first = made.state()
    made.loop(first)
    made.accepts = _Builder(made).sequence(parsed, first)
    made.loop(made.accepts)
    return made


@functools.lru_cache(maxsize=4096)
def of_name(name: str) -> Automaton:
    """Make the automaton of a pattern over names: ``*`` is any text, ``?`` one character."""
    made = Automaton()
    state = made.state()
    for character in name:
        if character == "*":
            made.loop(state)
        else:
            one = "" if character == "?" else character
            state = made.step(state, one, other=character == "?")
    end = made.state()
    made.free[state].append(("end", end))
    made.accepts = end
    return made


class _Builder:
    """Write the parts of a parsed pattern as states."""

    def __init__(self, made: Automaton) -> None:
        self._made = made

    def sequence(self, parts: Any, state: int) -> int:
        for kind, value in parts:
            state = self._part(kind, value, state)
        return state

    def _part(self, kind: Any, value: Any, state: int) -> int:
        made = self._made
        if kind is sre.LITERAL:
            return made.step(state, _cases(chr(value)))
        if kind is sre.NOT_LITERAL:
            return made.step(state, _cases(chr(value)), other=True)
        if kind is sre.ANY:
            return made.step(state, "\n", other=True)
        if kind is sre.IN:
            letters, other = _set(value)
            return made.step(state, letters, other=other)
        if kind is sre.AT and value in _PLACES:
            end = made.state()
            made.free[state].append((_PLACES[value], end))
            return end
        if kind is sre.BRANCH:
            return self._branch(value[1], state)
        if kind is sre.SUBPATTERN and not value[1] and not value[2]:
            return self.sequence(value[3], state)
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, part = value
            return self._repeat(least, most, part, state)
        raise UnknownPatternError(f"the pattern has a part that is not known here, {str(kind).lower()}")

    def _branch(self, branches: Any, state: int) -> int:
        end = self._made.state()
        for branch in branches:
            self._made.free[self.sequence(branch, state)].append((None, end))
        return end

    def _repeat(self, least: int, most: int, part: Any, state: int) -> int:
        made = self._made
        for _ in range(least):
            state = self.sequence(part, state)
        if most is sre.MAXREPEAT or most == sre.MAXREPEAT:
            again = made.state()
            made.free[state].append((None, again))
            made.free[self.sequence(part, again)].append((None, again))
            return again
        end = made.state()
        made.free[state].append((None, end))
        for _ in range(most - least):
            state = self.sequence(part, state)
            made.free[state].append((None, end))
        return end


def _cases(character: str) -> set[str]:
    return {character, *(c for c in (character.lower(), character.upper()) if len(c) == 1)}


def _set(parts: Any) -> tuple[frozenset[str], bool]:
    letters: set[str] = set()
    other = False
    for kind, value in parts:
        if kind is sre.NEGATE:
            other = True
        elif kind is sre.LITERAL:
            letters |= _cases(chr(value))
        elif kind is sre.RANGE and value[1] - value[0] < 0x300:
            letters |= {case for code in range(value[0], value[1] + 1) for case in _cases(chr(code))}
        elif kind is sre.CATEGORY and not _CATEGORIES[value][1]:
            letters |= _CATEGORIES[value][0]
        elif kind is sre.CATEGORY and not other and len(parts) == 1:
            return _CATEGORIES[value]
        elif kind is sre.CATEGORY:
            letters |= PRINTABLE - _CATEGORIES[value][0]
        else:
            raise UnknownPatternError("the pattern has a set of characters that is not known here")
    return frozenset(letters), other
