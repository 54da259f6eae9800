"""Recorded sessions, with the calls of each tool at hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

from ...events import USER_PROMPT, ToolCallEvent

__all__ = ("Index", "Recorded", "spelt")

_PlacedCalls: TypeAlias = list[tuple[int, ToolCallEvent]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """
    One session that was recorded.

    Attributes:
        name: Where it stands.
        calls: Its calls.
        places: Where each of them stands, its file and line, as far as that is known.
        prompts: The texts of the user, each with how many of the calls came before it.
    """

    name: str
    calls: tuple[ToolCallEvent, ...]
    places: tuple[str, ...] = ()
    prompts: tuple[tuple[int, str], ...] = ()

    def events(self) -> Iterator[ToolCallEvent]:
        """Give what happened in its order, what the user said among the calls."""
        for texts, call in self.with_prompts():
            yield from (ToolCallEvent(USER_PROMPT, {"prompt": text}, ts=call.ts) for text in texts)
            yield call

    def with_prompts(self) -> Iterator[tuple[list[str], ToolCallEvent]]:
        """Give each call, after the texts of the user since the call before it."""
        said: dict[int, list[str]] = {}
        for number, text in self.prompts:
            said.setdefault(number, []).append(text)
        return ((said.get(number, []), call) for number, call in enumerate(self.calls))

    def where(self, number: int) -> str:
        """Say where a call stands, for people: its place, or the session where that is not known."""
        return self.places[number] if number < len(self.places) else self.name


class Index:
    """
    Find the calls of tools in sessions, and how often one comes after another by chance.

    Args:
        sessions: The sessions.
        confidence: So large a share of times at least a suggestion has to hold.

    Attributes:
        sessions: How many sessions there are.
        sessions_of: In how many sessions each tool is called.
        values: Of each tool and each argument that is a text or a whole number, its values.
    """

    def __init__(self, sessions: Sequence[Recorded], *, confidence: float) -> None:
        self._confidence = confidence
        self.sessions = len(sessions)
        self.sessions_of: Counter[str] = Counter()
        self.values: dict[str, dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
        self._of: dict[str, list[dict[str, _PlacedCalls]]] = defaultdict(list)
        self._places: dict[int, str] = {}
        self._calls: Counter[str] = Counter()
        self._after: dict[str, Counter[str]] = defaultdict(Counter)
        self._before: dict[str, Counter[str]] = defaultdict(Counter)
        for session in sessions:
            self._take(session)

    def each(self, tool: str) -> list[list[ToolCallEvent]]:
        """Give the calls of a tool in each session in which it is called."""
        return [[call for _, call in by_tool[tool]] for by_tool in self._of[tool]]

    def both(self, one: str, other: str, *, needed: str) -> Iterator[list[ToolCallEvent]]:
        """Give the calls of two tools in the sessions in which `needed` is called, in their order."""
        for by_tool in self._of[needed]:
            calls = by_tool.get(one, []) + by_tool.get(other, [])
            calls.sort(key=_place)
            yield [call for _, call in calls]

    def calls_of(self, one: str, other: str) -> Iterator[tuple[_PlacedCalls, ...]]:
        """Give the calls of two tools, with their places, in the sessions in which both are called."""
        for by_tool in self._of[one]:
            if other in by_tool:
                yield by_tool[one], by_tool[other]

    def where(self, call: ToolCallEvent) -> str:
        """Say where a call stands, for people."""
        return self._places[id(call)]

    def tolerated(self, tool: str) -> float:
        """Tell how often what is asked of each call of a tool may fail and still be suggested."""
        return (1 - self._confidence) * self._calls[tool]

    def chance_after(self, first: str, *, left_out: str) -> float:
        """Tell how often a call of a third tool comes after one of `first`."""
        return self._chance(self._after[first], first, left_out)

    def chance_before(self, then: str, *, left_out: str) -> float:
        """Tell how often a call of a third tool comes before one of `then`."""
        return self._chance(self._before[then], then, left_out)

    def _chance(self, near: Counter[str], tool: str, left_out: str) -> float:
        total = self._calls.total() - self._calls[tool] - self._calls[left_out]
        count = near.total() - near[left_out]
        # Of two tools alone, one comes before the other half of the time.
        return (count + 1) / (total + 2)

    def _take(self, session: Recorded) -> None:
        by_tool: dict[str, _PlacedCalls] = {}
        for place, call in enumerate(session.calls):
            by_tool.setdefault(call.tool, []).append((place, call))
            self._places[id(call)] = session.where(place)
            self._calls[call.tool] += 1
            for name, value in call.args.items():
                if type(value) in (str, int) and "." not in name:
                    self.values[call.tool][name].add(spelt(value))
        for tool in by_tool:
            self._of[tool].append(by_tool)
        self.sessions_of.update(by_tool.keys())
        for tool, calls in by_tool.items():
            first, last = calls[0][0], calls[-1][0]
            names = [call.tool for call in session.calls]
            self._after[tool].update(name for name in names[first + 1 :] if name != tool)
            self._before[tool].update(name for name in names[:last] if name != tool)


def spelt(value: Any) -> Any:
    """Write a value of an argument so that it can be compared: 42 and "42" are one."""
    return str(value).strip() if type(value) in (str, int) else repr(value)


_place = itemgetter(0)
