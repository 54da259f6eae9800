"""
The combinations of patterns that one text can have, and a shortest text for each.

Breadth first over what all automata together know of a text so far. There are few such sets, and where there
are many, the search stops and says so. Texts are of printable ASCII, and of characters that patterns name.

Where one pattern is enough for a call to be refused, a call with two of them shows nothing more. So of such
patterns one at a time is looked for, and more only for those that never come alone.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..budget import Budget
from .automaton import PRINTABLE, Automaton, is_word
from .deterministic import Determined

__all__ = ("Combinations", "Found", "alike_texts", "combinations")

Found: TypeAlias = tuple[bool, ...]
"""Of each pattern, whether a text has it."""

_States: TypeAlias = tuple[int, ...]

_MAX_STATES = 200_000
# So many steps of automata are taken between two looks at the time.
_STEPS = 50_000
# Put into a text to get another like it.
_TRIED = "abcdefghxyz0123456789/. "


@dataclass(frozen=True, slots=True, kw_only=True)
class Combinations:
    """
    Which patterns one text can have together.

    Attributes:
        texts: Of each combination a shortest text; a combination says of each pattern whether it is found.
        whole: Whether no other combination can matter.
    """

    texts: dict[Found, str]
    whole: bool


def combinations(
    automata: Sequence[Automaton],
    *,
    alone: Collection[int] = (),
    budget: Budget | None = None,
    most: int = _MAX_STATES,
) -> Combinations:
    """
    Find the combinations of patterns that a text can have.

    Args:
        automata: The patterns.
        alone: The positions of those of which one is as good as several.
        budget: How long is searched.
        most: How much is searched, in states.
    """
    return _Search(automata, frozenset(alone), budget, most).run()


def alike_texts(automata: Sequence[Automaton], text: str, count: int) -> list[str]:
    """Find so many texts, this one first, that have the same patterns; fewer where they are not found."""
    letters = sorted({*_letters(automata), *text, *_TRIED})
    determined = [Determined(automaton, letters) for automaton in automata]

    def hits(tried: str) -> Found:
        found = []
        for one in determined:
            state = one.first
            for letter in tried:
                state = one.row(state)[letters.index(letter)]
            found.append(one.hits(state))
        return tuple(found)

    same = hits(text)
    places = range(len(text), -1, -1)
    tries = (text[:place] + letter + text[place:] for letter in _TRIED for place in places)
    others = (tried for tried in (*_TRIED, *tries) if tried != text and hits(tried) == same)
    return list(itertools.islice(dict.fromkeys((text, *others)), count))


class _Search:
    def __init__(
        self, automata: Sequence[Automaton], alone: frozenset[int], budget: Budget | None, most: int
    ) -> None:
        self._letters = _letters(automata)
        self._determined = [Determined(automaton, self._letters) for automaton in automata]
        self._alone = alone
        self._budget = budget
        self._most = most
        # Of each state, the one before it, and the letter between the two.
        self._seen: dict[_States, tuple[_States, int] | None] = {}
        self._waiting: deque[_States] = deque()
        self._held_back: list[_States] = []
        self._found: dict[Found, _States] = {}
        self._later: dict[Found, _States] = {}
        self._together = 1
        size = sum(len(automaton.steps) for automaton in automata) * len(self._letters)
        self._often = max(1, _STEPS // max(1, size))

    def run(self) -> Combinations:
        """Search, with more patterns at once only for those that never come alone."""
        first = tuple(determined.first for determined in self._determined)
        self._seen[first] = None
        self._waiting.append(first)
        whole = self._go()
        while whole and self._held_back and self._missing():
            self._together += 1
            self._let_go()
            whole = self._go()
        texts = {hits: self._text(states) for hits, states in self._found.items()}
        texts.setdefault(self._hits(first), self._short(first))
        return Combinations(texts=texts, whole=whole)

    def _go(self) -> bool:
        """Look at what waits, nearest first, and tell whether all was looked at."""
        of_alone = sum(math.comb(len(self._alone), hits) for hits in range(self._together + 1))
        every = 2 ** (len(self._determined) - len(self._alone)) * of_alone
        looked = 0
        while self._waiting and len(self._found) < every:
            looked += 1
            late = looked % self._often == 0 and self._budget is not None and self._budget.spent
            if late or len(self._seen) >= self._most:
                return False
            self._look(self._waiting.popleft())
        return True

    def _look(self, states: _States) -> None:
        if self._seen[states] is not None:
            hits = self._hits(states)
            together = sum(hits[place] for place in self._alone)
            (self._found if together <= self._together else self._later).setdefault(hits, states)
        for letter, after in enumerate(self._after(states)):
            if after not in self._seen:
                self._seen[after] = (states, letter)
                self._waiting.append(after) if self._is_wanted(after) else self._held_back.append(after)

    def _is_wanted(self, states: _States) -> bool:
        there = sum(states[place] == self._determined[place].found for place in self._alone)
        return there <= self._together

    def _missing(self) -> bool:
        """Tell whether a pattern was in no text yet that could be there with others."""
        return any(not any(hits[place] for hits in self._found) for place in self._alone)

    def _let_go(self) -> None:
        for hits, states in self._later.items():
            if sum(hits[place] for place in self._alone) <= self._together:
                self._found.setdefault(hits, states)
        held, self._held_back = self._held_back, []
        for states in held:
            self._waiting.append(states) if self._is_wanted(states) else self._held_back.append(states)

    def _hits(self, states: _States) -> Found:
        return tuple(
            determined.hits(state) for determined, state in zip(self._determined, states, strict=True)
        )

    def _short(self, first: _States) -> str:
        """Write a text of one letter that is like the empty one, which is hard to read and no key, if any."""
        for letter, after in zip(self._letters, self._after(first), strict=False):
            if self._hits(after) == self._hits(first):
                return letter
        return ""

    def _after(self, states: _States) -> Iterator[_States]:
        rows = (determined.row(state) for determined, state in zip(self._determined, states, strict=True))
        return zip(*rows, strict=True)

    def _text(self, states: _States) -> str:
        letters = []
        before = self._seen[states]
        while before is not None:
            letters.append(self._letters[before[1]])
            before = self._seen[before[0]]
        return "".join(reversed(letters))


def _letters(automata: Sequence[Automaton]) -> list[str]:
    """Choose one character of each kind: those that no pattern tells apart are one kind."""
    sets = {letters for automaton in automata for steps in automaton.steps for letters, _, _ in steps}
    every = PRINTABLE.union(*(automaton.letters for automaton in automata))
    kinds: dict[tuple[bool, ...], str] = {}
    # What reads best stands for its kind.
    for character in sorted(every, key=lambda c: (not c.islower(), not c.isalnum(), c != " ", c)):
        kind = (is_word(character), *(character in letters for letters in sets))
        kinds.setdefault(kind, character)
    return list(kinds.values())
