"""The names of tools that contracts tell apart: what they name, and one for each combination of patterns."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...contracts.declaration import Declaration
from ...match.matchers import is_glob, name_matches
from ...match.names import normal_name
from ..budget import Budget
from ..conditions.followed import tools_told_by
from ..patterns.automaton import of_name
from ..patterns.shortest_texts import combinations

__all__ = ("OTHER", "NamesByBeginning", "names_of", "tools_in")

_MAX_GLOBS = 14
OTHER = "other_tool"
"""A tool that contracts are about only where they are about every one."""


def tools_in(form: list[Any]) -> Iterator[str]:
    """Find the names of tools in the form of a selector."""
    word, *rest = form
    if word == "any_of":
        for inner in rest:
            yield from tools_in(inner)
    elif word in ("tool", "matching", "not_matching"):
        yield rest[0]


def names_of(
    contracts: Iterable[Declaration], tools: Iterable[str] = (), budget: Budget | None = None
) -> tuple[dict[str, bool], bool]:
    """
    Find the names of tools that contracts tell apart, as far as the budget allows.

    Returns:
        The names, each with whether it is named or stands for others, and whether these are all.
    """
    literal: dict[str, bool] = dict.fromkeys(tools, True)
    globs: dict[str, None] = {}
    for contract in contracts:
        literal.update(dict.fromkeys(sorted(tools_told_by(contract)), True))
        for role in contract.roles:
            for name in tools_in(role.selector.form()):
                if is_glob(name):
                    globs[name] = None
                else:
                    literal[name] = True
    whole = True
    for together in _overlapping(list(globs)):
        if len(together) > _MAX_GLOBS:
            literal.update(dict.fromkeys(map(_instance, together), False))
            whole = False
            continue
        found = combinations([of_name(glob) for glob in together], budget=budget)
        whole = whole and found.whole
        for hits, text in found.texts.items():
            if any(hits):
                literal.setdefault(_unlike(text, hits, together, literal), False)
    if OTHER not in literal and not any(name_matches(glob, OTHER) for glob in globs):
        literal[OTHER] = False
    return literal, whole


def _overlapping(globs: Sequence[str]) -> list[list[str]]:
    """Put patterns over names together that one name could fit, as far as their beginnings tell."""
    groups: list[list[str]] = []
    first = ""
    for beginning, glob in sorted((_beginning(glob), glob) for glob in globs):
        # Whatever begins with the shortest of a group stands next to it.
        if groups and beginning.startswith(first):
            groups[-1].append(glob)
        else:
            first = beginning
            groups.append([glob])
    order = {glob: place for place, glob in enumerate(globs)}
    return sorted((sorted(group, key=order.__getitem__) for group in groups), key=lambda of: order[of[0]])


def _beginning(glob: str) -> str:
    return re.split(r"[*?]", glob, maxsplit=1)[0]


class NamesByBeginning:
    """
    Find those of some names that a name or a pattern could fit.

    Attributes:
        names: The names.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(dict.fromkeys(names))
        spelt: dict[str, list[str]] = {}
        for name in self.names:
            spelt.setdefault(normal_name(name), []).append(name)
        self._spelt = spelt
        self._sorted = sorted(spelt)

    def fitting(self, name: str) -> list[str]:
        """Give the names that begin as a pattern does, or that are a name."""
        if not is_glob(name):
            return self._spelt.get(normal_name(name), [])
        beginning = normal_name(_beginning(name))
        found: list[str] = []
        for one in self._sorted[bisect.bisect_left(self._sorted, beginning) :]:
            if not one.startswith(beginning):
                break
            found += self._spelt[one]
        return found


def _unlike(text: str, hits: tuple[bool, ...], globs: Sequence[str], known: Mapping[str, bool]) -> str:
    """Choose a name for a combination of patterns that no contract names itself, and that can be read."""
    filled = [_instance(glob) for glob, hit in zip(globs, hits, strict=True) if hit]
    for name in (*filled, text, *(f"{text}{more}" for more in "x01_")):
        if name and name not in known and tuple(name_matches(glob, name) for glob in globs) == hits:
            return name
    return text or OTHER


def _instance(glob: str) -> str:
    return glob.replace("*", "x").replace("?", "x")
