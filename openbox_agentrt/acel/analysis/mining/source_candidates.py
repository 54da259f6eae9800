"""
Sources that recorded sessions suggest: in which results the values of an argument were found before.

Values may stand in a result by chance, and small ones do. So a source is suggested only where the results of
another session would have had them clearly less often.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...contracts.sources import PROMPT
from ...events import USER_PROMPT, ToolCallEvent
from ...match.paths import FieldError
from ...match.provenance import reading_of
from ...match.results import Result
from .contract_candidates import LIFT, Candidate
from .recorded_sessions import Recorded, is_field, is_nameable, spelt

__all__ = ("source_candidates",)

_MOST_SOURCES = 3
_MOST_LEAVES = 2_000
_LONGEST = 200
# What is written for a value that stands in no result, such as a fraction or a mapping.
_UNNAMED = ""

_Source: TypeAlias = tuple[str, str]
"""A tool, and where in its result; nowhere is the result as a whole."""

_PROMPT: _Source = (USER_PROMPT, PROMPT)
_NOWHERE: frozenset[int] = frozenset()

_Found: TypeAlias = dict[str, set[_Source]]


class _Use(NamedTuple):
    """One value of an argument: where it was used, and what had found it, in its session and in another."""

    value: str
    where: str
    found: frozenset[_Source]
    elsewhere: frozenset[_Source]


def source_candidates(
    sessions: Sequence[Recorded], *, min_support: int, confidence: float, effects: Collection[str]
) -> list[Candidate]:
    """
    Count in which results the arguments of calls were found.

    Args:
        sessions: The sessions.
        min_support: So many values of an argument at least.
        confidence: So large a share of them at least was found.
        effects: Tools whose arguments are looked at. None given, those of all.
    """
    uses: dict[tuple[str, str], list[_Use]] = {}
    before: _Found = {}
    said = _Said()
    for session in sessions:
        before, said = _take(session, before, said, uses, effects)
    lacking = _lacking(sessions, uses)
    found = (
        _candidate(tool, field, some, optional=(tool, field) in lacking)
        for (tool, field), some in sorted(uses.items())
    )
    return [
        candidate
        for candidate in found
        if candidate is not None and candidate.support >= min_support and candidate.confidence >= confidence
    ]


def _lacking(sessions: Sequence[Recorded], uses: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Find the arguments that not every call of their tool has."""
    fields: dict[str, list[str]] = {}
    for tool, field in uses:
        fields.setdefault(tool, []).append(field)
    calls = (each.call for session in sessions for each in session.ran() if each.call.tool in fields)
    return {
        (call.tool, field) for call in calls for field in fields[call.tool] if call.args.get(field) is None
    }


def _take(
    session: Recorded,
    elsewhere: Mapping[str, set[_Source]],
    said_elsewhere: _Said,
    uses: dict[tuple[str, str], list[_Use]],
    effects: Collection[str],
) -> tuple[_Found, _Said]:
    """Note the uses of values in a session, and give what its calls found and its user said."""
    known: _Found = {}
    said = _Said()
    texts = session.said()
    for number, is_end in session.steps():
        call = session.calls[number]
        can_name = is_nameable(call.tool)
        for text in () if is_end else texts.get(number, ()):
            said.add(text)
        is_about = can_name and (not effects or call.tool in effects)
        if not is_end and call.outcome != "aborted" and is_about:
            for field, value in _values(call):
                nobody: set[_Source] = set()
                found = frozenset(s for s in known.get(value, nobody) if s[0] != call.tool)
                found |= {_PROMPT} if said.names(value) else nobody
                other = frozenset(elsewhere.get(value, nobody))
                other |= {_PROMPT} if said_elsewhere.names(value) else nobody
                uses.setdefault((call.tool, field), []).append(
                    _Use(value, session.where(number), found, other)
                )
        if is_end and call.outcome == "ok" and can_name:
            for path, value in _leaves(Result(call.result).data, ""):
                known.setdefault(value, set()).add((call.tool, path))
    return known, said


class _Said:
    """Tell which values the user's texts name, as sessions read them."""

    def __init__(self) -> None:
        self._reading = reading_of("exact", None)
        self._places: dict[str, set[int]] = {}
        self._end = 0

    def add(self, text: str) -> None:
        """Hear one more text."""
        words = self._reading.words(text)
        for place, spellings in enumerate(words, self._end):
            for word in spellings:
                self._places.setdefault(word, set()).add(place)
        # Between two texts, nothing is next to each other.
        self._end += len(words) + 1

    def names(self, value: str) -> bool:
        """Tell whether the words of a value stand in a text, next to each other."""
        if not self._places:
            return False
        try:
            words = self._reading.name(value, "")
        except FieldError:
            return False
        first, *others = (self._places.get(word, _NOWHERE) for word in words)
        return any(all(place + n in after for n, after in enumerate(others, 1)) for place in first)


def _candidate(tool: str, field: str, uses: Sequence[_Use], *, optional: bool) -> Candidate | None:
    if len({use.value for use in uses}) < 2:
        return None
    chosen: list[_Source] = []
    left = list(uses)
    while left and len(chosen) < _MOST_SOURCES:
        counted: dict[_Source, int] = {}
        for use in left:
            for source in use.found:
                counted[source] = counted.get(source, 0) + 1
        if not counted:
            break
        # Of those that found as much, the one that is told shortest.
        chosen.append(min(counted, key=lambda source: (-counted[source], len(source[1]), source)))
        left = [use for use in left if use.found.isdisjoint(chosen)]
    held = len(uses) - len(left)
    by_chance = sum(not use.elsewhere.isdisjoint(chosen) for use in uses)
    if not chosen or held < LIFT * by_chance:
        return None
    sources = [
        PROMPT if (name, path) == _PROMPT else {"tool": name, **({"path": path} if path else {})}
        for name, path in chosen
    ]
    options = {"sources": sources, **({"optional": True} if optional else {})}
    contract = {"template": "came_from", "args": [tool, field], "kwargs": options}
    counter = tuple(dict.fromkeys(use.where for use in left))
    return Candidate(contract=contract, support=len(uses), held=held, counter=counter)


def _values(call: ToolCallEvent) -> Iterator[tuple[str, str]]:
    """Give the arguments of a call, each element of a list by itself; nothing for what no result names."""
    for name, value in call.args.items():
        if not is_field(name) or value is None:
            continue
        for part in value if isinstance(value, list | tuple) else (value,):
            is_short = type(part) in (str, int) and len(str(part)) <= _LONGEST
            yield name, spelt(part) if is_short else _UNNAMED


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Find the values of a result, each with its path; so many of them at most."""
    waiting = [(path, value)]
    for _ in range(_MOST_LEAVES):
        if not waiting:
            return
        place, part = waiting.pop()
        if isinstance(part, Mapping):
            named = ((str(name), inner) for name, inner in part.items())
            waiting += [
                (f"{place}.{name}" if place else name, inner)
                for name, inner in named
                if name and not set(".*") & set(name) and not name.isdigit()
            ]
        elif isinstance(part, list | tuple):
            waiting += [(f"{place}.*" if place else "*", inner) for inner in part]
        elif type(part) in (str, int) and len(str(part)) <= _LONGEST and spelt(part) != _UNNAMED:
            yield place, spelt(part)
