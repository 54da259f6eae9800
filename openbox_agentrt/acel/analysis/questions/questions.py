"""
One question about rules at a time, each answered by as few contracts as it takes.

Whether a tool is ever let through, or a contract ever decides, is asked of the contracts that it is about.
With fewer contracts sessions can do no less, so what is impossible then is impossible. What is possible is
tried on a session of all contracts; what stands in its way there is taken in, and the question asked again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from ..budget import Budget
from ..filling.filled_traces import Distance
from ..named import name_of
from ..rules.components import names_near
from ..search.explore import Aim, Explored, Look
from ..search.named_rows import row_of
from ..search.next_steps import Time
from ..search.state import Transition, Try
from ..search.timetable import way_to
from ..search.trace_row import TraceRow
from .searched import NO_TIME, SearchResult, Subject, is_timed
from .session_filler import SessionFiller
from .witness import played

__all__ = ("Possibility", "Questions")

_MOST_STATES = 5_000
_MOST_UNSHOWN = 20
_FEW_UNSHOWN = 3
_MOST_SEEN = 4
_FAR = 1_000
_FREELY: Time = "freely"

Search: TypeAlias = (
    "Callable[[Sequence[int], Sequence[str], Budget, Look | None, Aim | None, Time], SearchResult]"
)
"""Searches some contracts with the calls of some tools until a look stops it."""


@dataclass(frozen=True, slots=True)
class Possibility:
    """
    Give the answer to a question.

    Attributes:
        possible: Whether it can happen; None if that was not decided.
        found: Where it cannot, the search that shows it.
        unshown: Whether a search found it, and no session showed it.
        why: Why it was not decided, where it was not searched to the end.
    """

    possible: bool | None
    found: SearchResult | None = None
    unshown: bool = False
    why: str = ""


class Questions:
    """
    Ask about some contracts.

    Args:
        subject: The contracts.
        calls: Of each contract, the tools whose calls it is about.
        search: What searches some of them.
    """

    def __init__(self, subject: Subject, calls: Mapping[int, Sequence[str]], search: Search) -> None:
        self._subject = subject
        self._calls = calls
        self._search = search
        self._named: dict[str, set[int]] = {}
        for place, contract in enumerate(subject.contracts):
            self._named.setdefault(name_of(contract), set()).add(place)
        # The tools that were let through in some session, and the contracts that decided in one.
        decided = (places for name, places in self._named.items() if name in subject.examples.decided)
        self._shown: set[str | int] = {*subject.examples.let, *itertools.chain.from_iterable(decided)}
        self._filler = SessionFiller(subject)

    def is_let_through(self, tool: str, budget: Budget, *, quick: bool = False) -> Possibility:
        """Ask whether a call of a tool is ever let through; if `quick`, only by going straight for it."""
        aim = Aim(
            tools=(tool,),
            of_call=lambda tried: len(tried.blocking) + (not tried.admitted),
            of_end=lambda _: _FAR,
        )
        return self._ask(tool, frozenset(), aim, budget, quick=quick)

    def decides(self, place: int, budget: Budget, *, quick: bool = False) -> Possibility:
        """Do the same for whether a contract ever decides: it alone refuses, or would if it watches."""

        def watching(tried: Try) -> int:
            return len(tried.blocking) + (not tried.admitted) if place in tried.broken else _FAR

        watches = self._subject.contracts[place].mode != "enforce"
        alone = partial(self._from_alone, place)
        aim = Aim(
            tools=self._calls.get(place, ()),
            of_call=watching if watches else lambda tried: alone(tried.blocking),
            of_end=(lambda unmet: 0 if place in unmet else _FAR) if watches else alone,
        )
        return self._ask(place, frozenset({place}), aim, budget, quick=quick)

    def _from_alone(self, place: int, objecting: Collection[int]) -> int:
        """Say how many others object that replace a contract, if it objects."""
        others = (other for other in objecting if other != place)
        return sum(self._subject.replaces(o, place) for o in others) if place in objecting else _FAR

    def _ask(
        self, about: str | int, first: frozenset[int], aim: Aim, budget: Budget, *, quick: bool
    ) -> Possibility:
        # At first with few values and straight for it; what is not found so is searched for nearest first.
        watched, straight, time, why = first, True, _FREELY, NO_TIME
        while not budget.spent and about not in self._shown:
            trying = _Trying(
                self._subject,
                self._named,
                sorted(watched),
                aim,
                about,
                self._shown,
                self._filler,
                most_unshown=_FEW_UNSHOWN if quick else _MOST_UNSHOWN,
            )
            names = list(dict.fromkeys((*aim.tools, *names_near(self._calls, sorted(watched)))))
            part = (budget.part(2) if straight and not quick else budget).at_most(_MOST_STATES)
            some = self._search(sorted(watched), names, part, trying, trying.aim if straight else None, time)
            watched |= trying.in_the_way
            why = some.why_not_whole
            if about in self._shown or trying.in_the_way:
                continue
            if trying.unshown and is_timed(some) and time == _FREELY and not quick:
                straight, time = False, "in a zone"
                continue
            if trying.unshown:
                # It happens in a search, so no search says that it does not.
                return Possibility(None, unshown=True)
            if quick or not straight:
                shows = some.whole and not straight
                return Possibility(False, some) if shows else Possibility(None, why=why)
            straight = False
        return Possibility(True if about in self._shown else None, why=why)


class _Trying:
    """
    Look for something in a search, and try it on a session of all contracts.

    Attributes:
        in_the_way: Contracts that were not searched and stand in its way.
        unshown: How often it was found, and no session showed it though none of these stood in its way.
        aim: What is looked for, of contracts by their positions in the search.
    """

    def __init__(
        self,
        subject: Subject,
        named: Mapping[str, set[int]],
        watched: Sequence[int],
        aim: Aim,
        about: str | int,
        shown: set[str | int],
        filler: SessionFiller,
        *,
        most_unshown: int,
    ) -> None:
        self._filler = filler
        self._subject = subject
        self._about = about
        self._shown = shown
        self._named = named
        self._watched = watched
        self._most_unshown = most_unshown
        self._left: dict[str | int, int] = {}
        self.unshown = 0
        self.in_the_way: frozenset[int] = frozenset()
        self.aim = Aim(
            tools=aim.tools,
            of_call=lambda tried: aim.of_call(
                Try(self._places(tried.broken), self._places(tried.blocking), tried.admitted)
            ),
            of_end=lambda unmet: aim.of_end(self._places(unmet)),
            contract=watched.index(about) if isinstance(about, int) else None,
        )

    def __call__(self, found: Explored, state: int, step: Transition | None, tried: Try | None) -> bool:
        if tried is None or step is None or step.kind is None:
            there = not self.aim.of_end(found.unmet[state])
        else:
            there = step.kind.tool in self.aim.tools and not self.aim.of_call(tried)
            others = {step.kind.tool} if tried.admitted else self._places(tried.blocking)
            if not there and len(others) == 1 and self._is_worth(*others):
                self._see(*self._rows(found, state, step))
        if there:
            self._try_everywhere(found, state, step)
        return self._about in self._shown or bool(self.in_the_way) or self.unshown >= self._most_unshown

    def _is_worth(self, about: str | int) -> bool:
        """Tell whether it is worth a try if a session shows what was not asked for: a few times."""
        self._left[about] = self._left.get(about, _MOST_SEEN) - 1
        return about not in self._shown and self._left[about] >= 0

    def _places(self, own: Iterable[int]) -> frozenset[int]:
        return frozenset(self._watched[place] for place in own)

    def _rows(
        self, found: Explored, state: int, step: Transition | None
    ) -> tuple[list[TraceRow], list[TraceRow]]:
        """Write the way to a step, and let it happen in a session of all contracts."""
        rows, called = way_to(found, state)
        rows.append(TraceRow(kind="end") if step is None else row_of(found.world, step, called, "ok"))
        return rows, played(rows, self._subject.every, self._subject.state, self._subject.surroundings[0])

    def _try_everywhere(self, found: Explored, state: int, step: Transition | None) -> None:
        """Try something that was found, about other subjects and at other times too where that may help."""
        rows, done = self._rows(found, state, step)
        self._try(rows, done)
        for under in self._subject.surroundings[1:] if 0 < self.unshown <= _MOST_SEEN else ():
            if self._about not in self._shown:
                self._see(rows, played(rows, self._subject.every, self._subject.state, under))
        if self._about not in self._shown and self._may_be_filled(rows, done):
            shown = self._filler.shows(self._about, rows, self._distance)
            self.in_the_way = frozenset() if shown else self.in_the_way

    def _may_be_filled(self, rows: Sequence[TraceRow], done: Sequence[TraceRow]) -> bool:
        """Tell whether nothing stands in the way of a trace but conditions."""
        way = _against(rows, done) or done[-1].by
        objecting = self._enforced(way) - {self._about}
        return all(self._subject.contracts[place].conditions for place in objecting)

    def _distance(self, rows: Sequence[TraceRow], done: Sequence[TraceRow]) -> Distance:
        """Say how far a session is from showing what is asked: by calls, and by what objects to the last."""
        if len(done) == len(rows):
            self._see(rows, done)
        if self._about in self._shown:
            return (0,)
        for number, (row, happened) in enumerate(zip(rows[:-1], done, strict=False)):
            if row.outcome != happened.outcome:
                return len(rows) - number, len(happened.by), 0
        by = self._enforced(done[-1].by)
        if not isinstance(self._about, int):
            return 0, 1 + len(by), 0
        named = name_of(self._subject.contracts[self._about]) in done[-1].by
        return 0, sum(self._subject.replaces(o, self._about) for o in by - {self._about}), int(not named)

    def _try(self, rows: Sequence[TraceRow], done: Sequence[TraceRow]) -> None:
        """Take note of what a session shows, or of what stands in the way in it."""
        way = _against(rows, done)
        last = done[-1].by if done[-1].kind == "end" or done[-1].outcome == "refused" else ()
        objecting = self._enforced((*way, *last))
        self.in_the_way = objecting - frozenset(self._watched)
        self._see(rows, done)
        if self.in_the_way or self._about in self._shown:
            return
        # Where one stands in the way that is not analysed, nobody can tell; what is said holds all the same.
        if self._named.keys() >= set(way or last):
            self.unshown += 1
        else:
            self._shown.add(self._about)

    def _see(self, rows: Sequence[TraceRow], done: Sequence[TraceRow]) -> None:
        """Take note of all that a session shows, if it goes along with a trace to its last row."""
        last = done[-1]
        if _against(rows, done):
            return
        if last.kind == "call" and last.outcome == "ok":
            self._shown.add(last.tool)
            self._subject.ways.setdefault(last.tool, rows)
        for name in last.by:
            for place in self._named.get(name, ()):
                contract = self._subject.contracts[place]
                others = self._enforced(last.by) - {place}
                watching = contract.mode != "enforce" and (last.kind == "end" or last.outcome == "ok")
                if watching or (
                    contract.mode == "enforce" and not any(self._subject.replaces(o, place) for o in others)
                ):
                    self._shown.add(place)
                    self._subject.deciding.setdefault(place, rows)

    def _enforced(self, names: Iterable[str]) -> frozenset[int]:
        places = (place for name in names for place in self._named.get(name, ()))
        return frozenset(place for place in places if self._subject.contracts[place].mode == "enforce")


def _against(rows: Sequence[TraceRow], done: Sequence[TraceRow]) -> tuple[str, ...]:
    """Name what refuses the first call of a trace that does not end as it says, the last one left out."""
    pairs = zip(rows[:-1], done, strict=False)
    return next((happened.by for row, happened in pairs if happened.outcome != row.outcome), ())
