"""
The combinations of patterns that one text can have, and a shortest text for each.

Breadth first over what all automata together know of a text so far. There are few such sets, and where there
are many, the search stops and says so. Texts are of printable ASCII, and of characters that patterns name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .automata import PRINTABLE, Automaton, Place, is_word

__all__ = ("Combinations", "combinations")

Found = tuple[bool, ...]
_Sets = tuple[frozenset[int], ...]
_Before = Literal["nothing", "word", "other"]

_MAX_SETS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Combinations:
    """
    Which patterns one text can have together.

    Attributes:
        texts: Of each combination a shortest text; a combination says of each pattern whether it is found.
        whole: Whether there is no other combination.
    """

    texts: dict[Found, str]
    whole: bool


def combinations(automata: Sequence[Automaton], *, most: int = _MAX_SETS) -> Combinations:
    """Find the combinations of patterns that a text can have."""
    letters = _letters(automata)
    first: tuple[_Sets, _Before] = (tuple(frozenset({0}) for _ in automata), "nothing")
    seen: dict[tuple[_Sets, _Before], str] = {first: ""}
    waiting = deque([first])
    found: dict[Found, str] = {}
    while waiting and len(seen) < most:
        state = waiting.popleft()
        text = seen[state]
        found.setdefault(_found(automata, *state), text)
        if len(found) == 2 ** len(automata):
            return Combinations(texts=found, whole=True)
        for character in letters:
            after = _after(automata, *state, character)
            if after not in seen:
                seen[after] = text + character
                waiting.append(after)
    return Combinations(texts=found, whole=not waiting)


def _found(automata: Sequence[Automaton], sets: _Sets, before: _Before) -> Found:
    places = _places(before, None)
    return tuple(
        automaton.accepts in automaton.closure(states, places)
        for automaton, states in zip(automata, sets, strict=True)
    )


def _after(
    automata: Sequence[Automaton], sets: _Sets, before: _Before, character: str
) -> tuple[_Sets, _Before]:
    places = _places(before, character)
    after = tuple(
        automaton.after(automaton.closure(states, places), character)
        for automaton, states in zip(automata, sets, strict=True)
    )
    return after, "word" if is_word(character) else "other"


def _places(before: _Before, character: str | None) -> frozenset[Place]:
    places: set[Place] = set()
    if before == "nothing":
        places.add("begin")
    if character is None:
        places.add("end")
    word = character is not None and is_word(character)
    places.add("boundary" if (before == "word") is not word else "inside")
    return frozenset(places)


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
