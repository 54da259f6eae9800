"""
An automaton that is in one state at a time, made of one that is in several, as far as texts get.

A state is a number, and where a character leads from it is found out once. A pattern that was found stays
found whatever comes, so all such states are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from .automaton import Automaton, Place, is_word

__all__ = ("Determined",)

_Before: TypeAlias = Literal["nothing", "word", "other"]
_Sets: TypeAlias = tuple[frozenset[int], _Before]


class Determined:
    """
    Follow one automaton through texts.

    Args:
        automaton: The automaton.
        letters: One character of each kind that is told apart.

    Attributes:
        first: The state before the first character.
        found: The state in which the pattern was found for good; None before a text got there.
    """

    def __init__(self, automaton: Automaton, letters: Sequence[str]) -> None:
        self._automaton = automaton
        self._letters = [(letter, is_word(letter)) for letter in letters]
        self._lasts = any(
            other and not some and end == automaton.accepts
            for some, other, end in automaton.steps[automaton.accepts]
        )
        self._numbers: dict[_Sets, int] = {}
        self._sets: list[_Sets] = []
        self._rows: list[list[int] | None] = []
        self._hits: list[bool | None] = []
        self.found: int | None = None
        self.first = self._number(frozenset({0}), "nothing")

    def row(self, state: int) -> list[int]:
        """Give the state after each letter."""
        known = self._rows[state]
        return self._made_row(state) if known is None else known

    def hits(self, state: int) -> bool:
        """Tell whether a text that ends here has the pattern."""
        known = self._hits[state]
        if known is None:
            sets, before = self._sets[state]
            closed = self._automaton.closure(sets, _places(before, None))
            known = self._hits[state] = self._automaton.accepts in closed
        return known

    def _made_row(self, state: int) -> list[int]:
        sets, before = self._sets[state]
        closed = {word: self._automaton.closure(sets, _places(before, word)) for word in (False, True)}
        row = [
            self._number(self._automaton.after(closed[word], letter), "word" if word else "other")
            for letter, word in self._letters
        ]
        self._rows[state] = row
        return row

    def _number(self, sets: frozenset[int], before: _Before) -> int:
        lasting = self._lasts and self._automaton.accepts in self._automaton.closure(sets, frozenset())
        if lasting and self.found is not None:
            return self.found
        number = self._numbers.get((sets, before))
        if number is None:
            number = self._numbers[sets, before] = len(self._sets)
            self._sets.append((sets, before))
            self._rows.append([number] * len(self._letters) if lasting else None)
            self._hits.append(True if lasting else None)
            self.found = number if lasting else self.found
        return number


def _places(before: _Before, word: bool | None) -> frozenset[Place]:
    """Find the places between what came before and what comes: a letter of a word or not, or the end."""
    places: set[Place] = {"begin"} if before == "nothing" else set()
    if word is None:
        places.add("end")
    places.add("boundary" if (before == "word") is not bool(word) else "inside")
    return frozenset(places)
