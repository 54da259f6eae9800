"""
The rules that are looked at, and the states that some of them were searched in.

What is impossible in a search of some contracts is impossible under all of them, since more contracts let
through no more. What is possible is shown by a trace, which a real session of all contracts has to confirm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...._plain.amounts import show
from ...contracts.declaration import Declaration
from ..conditions.followed import calls_counted
from ..named import Named, name_of
from ..rules.analysable import guards_of
from ..rules.subject import Surroundings
from ..search.explore import Explored, edges_to
from ..search.named_rows import row_of
from ..search.state import Transition
from ..search.timetable import way_to
from ..search.trace_row import TraceRow
from .shown_by_tests import Examples
from .witness import confirmed, played

__all__ = (
    "FEW_VALUES",
    "NO_TIME",
    "WAITS",
    "SearchResult",
    "Subject",
    "has_values",
    "is_timed",
    "may_need_more_values",
    "tried_note",
    "values_owed",
)

FEW_VALUES = "it may take more values of a key than were tried"
NO_TIME = "there was no time left to search it"
WAITS = "no waits were found with which a session shows it"


@dataclass(frozen=True, slots=True)
class Subject:
    """
    The rules that are looked at.

    Attributes:
        contracts: Those that can be analysed.
        named: How each is named.
        every: All contracts, for real sessions.
        state: The state that a session begins with.
        unshown: What the search found, and no session shows.
        examples: What is known to be possible.
        surroundings: Under which sessions are tried.
        ways: Of tools, traces to a call that is let through, as far as they are known.
        deciding: Of contracts, traces to whose last row they alone object, as far as they were asked for.
    """

    contracts: Sequence[Declaration]
    named: Sequence[Named]
    every: Sequence[Any]
    state: Mapping[str, Any]
    unshown: list[str] = field(default_factory=list)
    examples: Examples = field(default_factory=Examples)
    surroundings: Sequence[Surroundings] = (Surroundings(),)
    ways: dict[str, Sequence[TraceRow]] = field(default_factory=dict)
    deciding: dict[int, Sequence[TraceRow]] = field(default_factory=dict)

    def shown(self, rows: Sequence[TraceRow], by: Iterable[int]) -> tuple[TraceRow, ...] | None:
        """Let a session of all contracts show a trace, to whose last row one of some contracts objects."""
        names = {name_of(self.contracts[place]) for place in by}
        found = (confirmed(rows, self.every, self.state, by=name) for name in sorted(names))
        return next((trace for trace in found if trace is not None), None)

    def refusing(self, rows: Sequence[TraceRow]) -> frozenset[int]:
        """Find the contracts for which a session of all contracts does not go along with a trace."""
        done = played(rows, self.every, self.state)
        named = {
            name
            for row, happened in zip(rows, done, strict=True)
            if row.outcome != happened.outcome
            for name in happened.by
        }
        return frozenset(p for p, contract in enumerate(self.contracts) if name_of(contract) in named)

    def replaces(self, place: int, other: int) -> bool:
        """Tell whether a contract that objects does all that another one does which objects too."""
        mine, theirs = self.contracts[place], self.contracts[other]
        # One that only refuses leaves the session open, and one that halts ends it.
        return mine.mode == "enforce" and (mine.on_violation == "halt" or theirs.on_violation != "halt")

    def note_ways(self, some: SearchResult) -> None:
        """Note how sessions come to the calls of tools, for conditions that read what these tell."""
        if any(contract.facts for contract in self.contracts):
            self.ways.update((tool, some.trace(*let[0])) for tool, let in some.found.let.items())

    def names(self, places: Iterable[int]) -> tuple[Named, ...]:
        """Name contracts in the order of the file."""
        return tuple(self.named[place] for place in sorted(places))


@dataclass(frozen=True, slots=True)
class SearchResult:
    """
    Say which states some contracts were searched in.

    Attributes:
        contracts: Their positions.
        names: The tools whose calls were tried.
        found: The states.
        why_not_whole: Why something was left out; empty if nothing was.
    """

    contracts: tuple[int, ...]
    names: frozenset[str]
    found: Explored
    why_not_whole: str = ""

    @property
    def whole(self) -> bool:
        """Tell whether nothing was left out."""
        return not self.why_not_whole

    def place(self, own: int) -> int:
        """Give the position among all contracts of one that was searched."""
        return self.contracts[own]

    def trace(self, place: int, step: Transition | None = None) -> list[TraceRow]:
        """Write the way to a state, and one more step."""
        rows, called = way_to(self.found, place)
        return rows if step is None else [*rows, row_of(self.found.world, step, called, "ok")]

    def is_at_once(self, place: int) -> bool:
        """Tell whether no time has to pass on the way to a state."""
        return all(edge.step.passing is None for edge in edges_to(self.found.edges, place))

    def met(self, own: Collection[int]) -> list[int]:
        """List the states in which some contracts, by their positions in the search, are met."""
        return [state for state, unmet in enumerate(self.found.unmet) if unmet.isdisjoint(own)]

    def stuck(
        self, own: Collection[int], by: Collection[str | None] | None = None, *, surely: bool = False
    ) -> Iterator[int]:
        """
        Find the states of open sessions from which nothing leads to where some contracts are met.

        Args:
            own: The contracts, by their positions in the search.
            by: What may lead there, and
            surely: whether for each session, see `Explored.reaching`.
        """
        good = self.found.reaching(self.met(own), by, surely=surely)
        return (s for s, state in enumerate(self.found.states) if s not in good and not state[0].shut)


def has_values(subject: Subject, some: SearchResult, state: int) -> bool:
    """
    Tell whether so many new values of keys are left in a state as all obligations together may take.

    Where calls have used up those that are tried, a customer that nobody has seen may still meet them.
    """
    return some.found.world.has_values(some.found.states[state], values_owed(subject, some))


def values_owed(subject: Subject, some: SearchResult) -> int:
    """Say how many new values of a key all obligations together may take."""
    contracts = [subject.contracts[place] for place in some.contracts]
    guards = [guard for contract in contracts for guard in contract.at_end]
    return sum(max(1, int(guard.n)) for guard in guards) + sum(map(calls_counted, contracts)) * bool(guards)


def may_need_more_values(contract: Declaration) -> bool:
    """Tell whether a contract counts over all values of keys, so that more of them could matter."""
    return any(
        guard.kind == "distinct"
        or (
            guard.kind in ("cap", "need", "spend")
            and guard.cell is not None
            and guard.cell.key is None
            and guard.n > 1
        )
        for guard in guards_of(contract)
    )


def tried_note(subject: Subject, places: Iterable[int]) -> str | None:
    """Say with which amounts some contracts were searched, where others could show more."""
    contracts = [subject.contracts[place] for place in places]
    amounts = sorted({guard.n for contract in contracts for guard in _spends(contract)})
    return f"searched with amounts at and just over {', '.join(map(show, amounts))}" if amounts else None


def is_timed(some: SearchResult) -> bool:
    """Tell whether a window matters to what was searched, so that times were taken either way."""
    return any(machine.windows.widths for machine in some.found.world.machines)


def _spends(contract: Declaration) -> Iterator[Any]:
    return (guard for guard in guards_of(contract) if guard.kind == "spend")
