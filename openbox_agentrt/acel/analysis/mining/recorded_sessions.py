"""Recorded sessions, with the calls of each tool at hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ...events import ToolCallEvent
from ...match.matchers import is_glob

__all__ = ("Index", "Placed", "Recorded", "is_field", "is_nameable", "spelt")


class Placed(NamedTuple):
    """
    A call that ran, and when, counted in what happened in its session.

    Attributes:
        began: The place of its beginning.
        ended: That of its end.
        call: The call.
    """

    began: float
    ended: float
    call: ToolCallEvent


_PlacedCalls: TypeAlias = list[Placed]

_KEYS = (str, int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """
    One session that was recorded.

    Attributes:
        name: Where it stands.
        calls: Its calls, in the order in which they began. What was aborted has kept others out, and not run.
        spans: When each began and ended, counted in what happened. Not given, one came after the other.
        places: Where each of them stands, its file and line, as far as that is known.
        prompts: The texts of the user, each with how many of the calls came before it.
    """

    name: str
    calls: tuple[ToolCallEvent, ...]
    spans: tuple[tuple[float, float], ...] = ()
    places: tuple[str, ...] = ()
    prompts: tuple[tuple[int, str], ...] = ()

    def ran(self) -> Iterator[Placed]:
        """Give each call that ran, with when it began and ended."""
        return (
            Placed(*span, call)
            for span, call in zip(self._spans(), self.calls, strict=True)
            if call.outcome != "aborted"
        )

    def steps(self) -> Iterator[tuple[int, bool]]:
        """Give in their order the number of each call that began or ended, and whether it ended."""
        steps = [
            (place, is_end, number)
            for number, span in enumerate(self._spans())
            for is_end, place in enumerate(span)
        ]
        return ((number, bool(is_end)) for _, is_end, number in sorted(steps))

    def said(self) -> dict[int, list[str]]:
        """Give the texts of the user by the number of the call that came next."""
        said: dict[int, list[str]] = {}
        for number, text in self.prompts:
            said.setdefault(number, []).append(text)
        return said

    def _spans(self) -> Sequence[tuple[float, float]]:
        return self.spans or [(2 * number, 2 * number + 1) for number in range(len(self.calls))]

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
        self._told: dict[int, dict[str, str]] = {}
        self._calls: Counter[str] = Counter()
        self._after: dict[str, Counter[str]] = defaultdict(Counter)
        self._before: dict[str, Counter[str]] = defaultdict(Counter)
        for session in sessions:
            self._take(session)

    def each(self, tool: str) -> list[list[ToolCallEvent]]:
        """Give the calls of a tool in each session in which it is called."""
        return [[each.call for each in by_tool[tool]] for by_tool in self._of[tool]]

    def both(self, first: str, then: str, *, needed: str) -> Iterator[list[ToolCallEvent]]:
        """
        Give the calls of two tools in the sessions in which `needed` is called.

        Those of `first` stand where they ended, since from there on they count, those of `then` where they
        began.
        """
        for by_tool in self._of[needed]:
            placed = [(each.ended, each.call) for each in by_tool.get(first, ())]
            placed += [(each.began, each.call) for each in by_tool.get(then, ())]
            placed.sort(key=_place)
            yield [call for _, call in placed]

    def calls_of(self, one: str, other: str) -> Iterator[tuple[_PlacedCalls, ...]]:
        """Give the calls of two tools, with when they were, in the sessions in which both are called."""
        for by_tool in self._of[one]:
            if other in by_tool:
                yield by_tool[one], by_tool[other]

    def told(self, call: ToolCallEvent) -> dict[str, str]:
        """Give the arguments of a call by which others may be told to be about the same."""
        told = self._told.get(id(call))
        if told is None:
            spelled = {name: spelt(value) for name, value in call.args.items() if type(value) in _KEYS}
            told = self._told[id(call)] = {name: value for name, value in spelled.items() if value}
        return told

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
        names: list[str] = []
        places = {id(call): session.where(number) for number, call in enumerate(session.calls)}
        for each in session.ran():
            call = each.call
            by_tool.setdefault(call.tool, []).append(each)
            names.append(call.tool)
            self._places[id(call)] = places[id(call)]
            self._calls[call.tool] += 1
            for name, value in call.args.items():
                if type(value) in (str, int) and is_field(name):
                    self.values[call.tool][name].add(spelt(value))
        for tool in by_tool:
            self._of[tool].append(by_tool)
        self.sessions_of.update(by_tool.keys())
        for tool in by_tool:
            first, last = names.index(tool), len(names) - 1 - names[::-1].index(tool)
            self._after[tool].update(name for name in names[first + 1 :] if name != tool)
            self._before[tool].update(name for name in names[:last] if name != tool)


def is_nameable(tool: str) -> bool:
    """Tell whether rules can be about a tool alone: a name of a pattern's form stands for others as well."""
    return bool(tool) and not is_glob(tool)


def is_field(name: str) -> bool:
    """Tell whether rules take a name for that of an argument, and not for a path or something else."""
    return bool(name) and not set(".*") & set(name) and not name.startswith("$")


def spelt(value: Any) -> Any:
    """Write a value of an argument so that it can be compared: 42 and "42" are one."""
    return str(value).strip() if type(value) in (str, int) else repr(value)


def _place(placed: tuple[float, ToolCallEvent]) -> float:
    return placed[0]
