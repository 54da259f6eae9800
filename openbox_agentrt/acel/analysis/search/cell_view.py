"""
View what a cell remembers as a small value, shared by all that no call can ever tell apart.

Counters stop at the highest limit, times are ages, steps are gone but for "the last call was one of these",
and what no comparison looks at is left out. The engine's own cells are read and written: nothing decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...._plain.amounts import Amount, subtract
from ...contracts.rules import Cell
from ...memory.cell import LiveCell
from ...memory.distinct import Distinct
from ...memory.facts import FactMemory
from ...memory.flights import Flights
from ...memory.fresh import Fresh, FreshByKey
from ...memory.kept_out import Secrets
from ...memory.keyed import Keyed
from ...memory.order import Latest, StepMark
from ...memory.owed import Pending
from ...memory.tally import Tally
from ...memory.tokens import Token, Tokens
from ...memory.total import Sum
from ...memory.values import LearningCell, Values, Words
from ...memory.window import Marks, Stamps
from .ages import ages_of, with_ages

__all__ = ("CellView", "Frozen")

Frozen: TypeAlias = Any
"""What one cell remembers, as a value that can be compared."""

# Steps of the past. The store is set to a later one.
_BEFORE = 1


@dataclass(slots=True)
class CellView:
    """
    One cell, and which part of what it remembers can matter.

    Attributes:
        cell: Its name.
        live: The engine's cell.
        starts: So many calls that began are told apart, and
        successes: so many that succeeded.
        most: An amount from which all are alike, or None if none is.
        tokens: So many unused prerequisites are told apart.
        oldest: The age from which all are alike.
        latest: The cell that tells which call was the last, for one that marks a step.
        texts: The values that a source can find.
        told: The values of a fact that conditions read.
    """

    cell: Cell
    live: LiveCell
    starts: int = 0
    successes: int = 0
    most: Amount | None = None
    tokens: int = 2
    oldest: float = 0.0
    latest: CellView | None = None
    texts: tuple[str, ...] = ()
    told: frozenset[str] = frozenset()

    @property
    def is_mapping(self) -> bool:
        """Tell whether what it remembers is apart by the values of a key."""
        return self.cell.key is not None or self.cell.kind == "facts"

    def freeze(self) -> Frozen:
        """Give what it remembers."""
        live = self.live.whole()
        if isinstance(live, FactMemory):
            return {key: self._told(values) for key, (_, values) in live.dump().items()}
        if not isinstance(live, Keyed):
            return self._freeze(live, None)
        blank = self._freeze(live.blank, None)
        found = {}
        for name, inner in live.each():
            value = self._freeze(inner, name)
            if value != blank:
                found[name] = value
        return found

    def load(self, frozen: Frozen) -> None:
        """Remember what `freeze` gave, and nothing else."""
        live = self.live.whole()
        if isinstance(live, FactMemory):
            live.load({key: [_BEFORE, _lists(dict(values))] for key, values in frozen.items()})
            return
        if not isinstance(live, Keyed):
            self._load(live, frozen, None)
            return
        live.load({"voided": 0, "values": {}} if isinstance(live, FreshByKey) else {})
        for name, value in frozen.items():
            entry = live.open(name)
            assert entry is not None
            self._load(entry.cell, value, name)

    def aged(self, frozen: Frozen, seconds: float) -> Frozen:
        """Give what it remembers after a time in which nothing happened."""
        if isinstance(self.live.whole(), Keyed):
            return {name: self._aged(value, seconds) for name, value in frozen.items()}
        return self._aged(frozen, seconds)

    def _freeze(self, cell: Any, name: str | None) -> Frozen:
        kind = type(cell)
        if kind is Tally:
            return min(cell.live, self.starts), min(cell.done, self.successes)
        if kind is Latest or kind is Flights:
            return None
        if kind is StepMark:
            if not cell.step or cell.step != self._last(name):
                return None
            return self._age(-cell.at_time) if cell.within is not None else 0.0
        # Forgets what is too old.
        cell.idle()
        if kind is Stamps:
            return _latest((-at for at, _ in cell.stamps), self.starts)
        if kind is Marks:
            return _latest((-at for at in cell.marks), self.successes), min(cell._live, 1)
        if kind is Sum:
            return self._total(cell)
        if kind is Distinct:
            if cell.timeline is None:
                return tuple(sorted(cell.counts))
            return _last_of_each(cell._entries)
        if kind is Tokens:
            return _latest((-token.at for token in cell.tokens), self.tokens)
        if kind is Fresh:
            return tuple(-at for _, at in cell.marks)
        if isinstance(cell, LearningCell):
            return self._found(cell)
        assert kind is Pending
        return tuple(sorted({self._age(-at) for at in cell._owed.values()}, reverse=True))

    def _load(self, cell: Any, frozen: Frozen, name: str | None) -> None:
        kind = type(cell)
        if kind is Tally:
            cell.live, cell.done = frozen
            cell.first = None
        elif kind is Latest:
            cell.load(0)
            cell.flying.clear()
        elif kind is Flights:
            cell.load([])
        elif kind is StepMark:
            cell.step, cell.at_time = (0, 0.0) if frozen is None else (_BEFORE, -frozen)
            if frozen is not None:
                self._mark_last(name)
        elif kind is Stamps:
            cell.load([(-age, _BEFORE) for age in frozen])
        elif kind is Marks:
            cell.load({"marks": [-age for age in frozen[0]], "live": frozen[1]})
        elif kind is Sum:
            total, unread, entries = frozen
            cell.total = total
            cell._entries.clear()
            cell._entries.extend((-age, amount) for age, amount in entries)
            cell.unread = _BEFORE if unread else None
        elif kind is Distinct:
            cell._entries.clear()
            if cell.timeline is None:
                cell.counts = dict.fromkeys(frozen, 1)
            else:
                cell._entries.extend((-age, value) for age, value in frozen)
                cell.counts = {}
                for _, value in frozen:
                    cell.counts[value] = cell.counts.get(value, 0) + 1
        elif isinstance(cell, LearningCell):
            _forget(cell)
            for age, text in sorted(frozen, reverse=True):
                cell._put(_read(cell, text), -age)
        elif kind is Fresh:
            cell.load({"voided": 0, "marks": [(_BEFORE, -age) for age in frozen]})
            cell.own.seen = _BEFORE
        elif kind is Tokens:
            cell.tokens = [Token(-age, 0) for age in frozen]
            cell._given, cell._without = 0, []
        else:
            assert kind is Pending
            cell.load([(_BEFORE + place, -age) for place, age in enumerate(frozen)])
            if cell.timeline is not None:
                cell._ended = None

    def _aged(self, frozen: Frozen, seconds: float) -> Frozen:
        if self.cell.within is None:
            return frozen
        # In some it does not matter how old they are once they are too old.
        clamped = self.cell.kind in ("pending", "step")
        aged = (age + seconds for age in ages_of(self.cell.kind, frozen))
        return with_ages(self.cell.kind, frozen, [self._age(age) if clamped else age for age in aged])

    def _total(self, cell: Sum) -> Frozen:
        """Give a sum; of a window, what came last as far as it is over every limit by itself."""
        total, entries = cell.total, [(-at, amount) for at, amount in cell._entries]
        if self.most is None:
            return total, cell.unread is not None, tuple(entries)
        while entries and subtract(total, entries[0][1]) >= self.most:
            total = subtract(total, entries.pop(0)[1])
        return total if entries else min(total, self.most), cell.unread is not None, tuple(entries)

    def _told(self, values: dict[str, Any]) -> Frozen:
        known = {name: value for name, value in values.items() if name in self.told}
        return tuple(sorted((name, _tuples(value)) for name, value in known.items()))

    def _age(self, age: float) -> float:
        return min(age, self.oldest)

    def _found(self, cell: LearningCell) -> Frozen:
        """Give the values that a source has found, with their ages where they matter."""
        known = {_spelt(kept): at for kept, at in _kept(cell)}
        found = []
        for text in self.texts:
            at = known.get(_spelt(_read(cell, text)))
            if at is not None and cell._counts(at):
                found.append((0.0 if cell.within is None else -at, text))
        return tuple(sorted(found))

    def _last(self, name: str | None) -> int:
        assert self.latest is not None
        cell: Any = self.latest.live
        if isinstance(cell, Keyed):
            return next((inner.top for key, inner in cell.each() if key == name), 0)  # type: ignore[attr-defined]
        return int(cell.top)

    def _mark_last(self, name: str | None) -> None:
        assert self.latest is not None
        cell: Any = self.latest.live
        if isinstance(cell, Keyed):
            entry = cell.open(name or "")
            assert entry is not None
            cell = entry.cell
        cell.top = _BEFORE


def _last_of_each(entries: Iterable[tuple[float, str]]) -> Frozen:
    """Give the ages of values that count until their last use is too old."""
    last: dict[str, float] = {}
    for at, value in entries:
        last.pop(value, None)
        last[value] = -at
    return tuple((age, value) for value, age in last.items())


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(inner) for name, inner in value.items()}
    return list(map(_lists, value)) if isinstance(value, tuple) else value


def _latest(ages: Iterable[float], most: int) -> tuple[float, ...]:
    every = tuple(ages)
    return every[len(every) - most :] if len(every) > most else every


def _read(cell: LearningCell, text: str) -> list[Any]:
    """Read a text as a source does that finds it."""
    return cell._read(iter((text,)))


def _kept(cell: LearningCell) -> Iterator[tuple[list[Any], float]]:
    """Give what a source remembers, each as it was read, and as of when."""
    if isinstance(cell, Values):
        yield from (([digest], at) for digest, at in cell._last.items())
    elif isinstance(cell, Words):
        yield from (([words], at) for at, _, words in cell._texts)
    else:
        assert isinstance(cell, Secrets)
        yield from (([[length, digest]], 0.0) for digest, (length, _) in cell._known.items())


def _forget(cell: LearningCell) -> None:
    if isinstance(cell, Values):
        cell.load({})
    elif isinstance(cell, Words):
        cell.load([])
    else:
        cell.load({"secrets": [], "full": False})


def _spelt(read: list[Any]) -> str:
    return json.dumps(read)
