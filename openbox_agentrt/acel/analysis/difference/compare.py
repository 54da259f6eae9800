"""
Compare rules before and after a change: the first call on which they part, in both directions.

Two engines beside each other, one under each set of rules, see the same calls. Only contracts that can have
to do with what changed are watched, and what is found is tried on real sessions of all contracts of each.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ...rulesfile import Rules
from ..analyse import MAX_STATES, deciding, named_contracts
from ..budget import Budget
from ..named import name_of
from ..questions.witness import UNSHOWN
from ..rules.analysable import why_unknown
from ..rules.components import Component, components, names_about, names_near, touched
from ..rules.tool_names import OTHER, names_of
from ..search.trace_row import TraceRow, shown_rows
from ..sentences import first_few
from .beyond_traces import seen_in_traces
from .changes_in_words import Changes, SaidContract, changes_between, form_of
from .side_by_side import Pair, Parted, Side

__all__ = ("Difference", "compare")

_SHARES = 8
# First, so large a part of the time, is looked for the nearest.
_NEAR = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """
    List everything that a change of rules changes.

    Attributes:
        changes: Contracts that were added, removed or changed, in words.
        state: Entries of the initial state that changed, in words.
        stricter: A shortest trace whose last call was let through before and is refused now.
        looser: A shortest trace whose last call was refused before and is let through now.
        owed: A shortest trace after which a contract in force is unmet at the end that was not before.
        forgiven: A shortest trace after which one is not unmet at the end any more.
        undecided: What was not decided, and why.
        not_analysed: Contracts that are not analysed, and why.
        states: How many states were tried.
    """

    changes: Changes
    state: tuple[str, ...]
    stricter: tuple[TraceRow, ...] | None
    looser: tuple[TraceRow, ...] | None
    owed: tuple[TraceRow, ...] | None
    forgiven: tuple[TraceRow, ...] | None
    undecided: tuple[str, ...]
    not_analysed: tuple[str, ...]
    states: int

    @property
    def parts(self) -> bool:
        """True if something changed that a trace can show."""
        return self.changes.calls or bool(self.state)

    @property
    def same(self) -> bool:
        """True if both say the same, in whatever order and however written."""
        return not (self.changes.added or self.changes.removed or self.changes.changed or self.state)

    def to_dict(self) -> dict[str, Any]:
        """The difference as JSON data."""

        def rows(trace: tuple[TraceRow, ...] | None) -> list[dict[str, Any]] | None:
            return None if trace is None else [row.to_dict() for row in trace]

        changes = self.changes
        return {
            "same": self.same,
            "added": [{"name": n.name, "spec": n.spec, "line": n.line} for n in changes.added],
            "removed": [{"name": n.name, "spec": n.spec, "line": n.line} for n in changes.removed],
            "changed": [{"name": c.before.name, "words": list(c.words)} for c in changes.changed],
            "state": list(self.state),
            "unshown": list(changes.unshown),
            "new_refuses": rows(self.stricter),
            "new_allows": rows(self.looser),
            "new_requires": rows(self.owed),
            "new_forgives": rows(self.forgiven),
            "undecided": list(self.undecided),
            "not_analysed": list(self.not_analysed),
            "states": self.states,
        }

    def lines(self) -> Iterator[str]:
        """Write the difference for people."""
        yield from self.changes.lines()
        yield from (f"changed: state: {what}" for what in self.state)
        for words, trace in (
            ("new refuses, and old allows", self.stricter),
            ("new allows, and old refuses", self.looser),
            ("new requires at the end", self.owed),
            ("new requires no more at the end", self.forgiven),
        ):
            if trace is not None:
                yield f"{words}: {shown_rows(trace)}"
        if self.parts and self.stricter is self.looser is self.owed is self.forgiven is None:
            yield "no call was found on which they part"
        yield from (f"undecided: {what}" for what in self.undecided)
        yield from (f"not analysed: {what}" for what in self.not_analysed)


def compare(
    old: Rules,
    new: Rules,
    *,
    tools: Collection[str] | None = None,
    lines: tuple[Sequence[int | None], Sequence[int | None]] = ((), ()),
    seconds: float = 10.0,
    states: int = MAX_STATES,
) -> Difference:
    """
    Compare rules before and after a change.

    Args:
        old: The rules before.
        new: The rules after.
        tools: Further names of tools that are tried.
        lines: The lines of the contracts of each in its file.
        seconds: How much processor time is searched; five times as long pass at most.
        states: How many states are searched.
    """
    budget = Budget(seconds, states)
    before, after = _side(old), _side(new)
    changes = changes_between(_said(old, lines[0]), _said(new, lines[1]))
    unknown = [
        f"{name_of(contract)}: {why}"
        for contract in (*before.every, *after.every)
        if (why := why_unknown(contract))
    ]
    # What is written otherwise and has no id is one contract all the same.
    renamed = {c.after.name: c.before.name for c in changes.changed if c.after.name != c.before.name}
    after.called = renamed
    entries = tuple(_entries(before.state, after.state))
    parted = Parted()
    if changes.calls or entries:
        _search(before, after, parted, budget, tools or ())
    return Difference(
        changes=changes,
        state=entries,
        stricter=parted.stricter,
        looser=parted.looser,
        owed=parted.owed,
        forgiven=parted.forgiven,
        undecided=tuple(parted.undecided),
        not_analysed=tuple(dict.fromkeys(unknown)),
        states=parted.states,
    )


def _said(rules: Rules, lines: Sequence[int | None]) -> list[SaidContract]:
    named = named_contracts(rules.contracts, lines)
    return list(map(SaidContract, rules.contracts, named))


def _side(rules: Rules) -> Side:
    every: list[TemporalContract] = list(rules.contracts)
    known = [c for c in rules.contracts if why_unknown(c) is None]
    return Side(every, list(known), rules.state)


def _entries(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name) or (name in old) is not (name in new):
            yield f"{name} {old.get(name, 'none')!r} -> {new.get(name, 'none')!r}"


def _search(old: Side, new: Side, parted: Parted, budget: Budget, tools: Iterable[str]) -> None:
    every = [*old.known, *new.known]
    names, all_named = names_of(every, tools, budget.part(4))
    if not all_named:
        parted.undecided.append("which tools fit which patterns over names: there are too many patterns")
    about = touched(every, names)
    forms = [json.dumps(seen_in_traces(form_of(contract)), sort_keys=True) for contract in every]
    before, after = frozenset(forms[: len(old.known)]), frozenset(forms[len(old.known) :])
    changed = {
        place
        for place, form in enumerate(forms)
        if form not in (after if place < len(old.known) else before)
        or (old.state != new.state and every[place].template == "requires_state")
    }
    waiting = [c for c in components(every, about, range(len(every))) if changed & set(c.contracts)]
    waiting.sort(key=lambda component: len(component.contracts))
    comparison, left = _Comparison(old, new, every, about), list[str]()
    for number, component in enumerate(waiting):
        some = changed & set(component.contracts)
        if not budget.late:
            found = comparison.search(some, budget.part(min(_SHARES, len(waiting) - number)))
            parted.take(found)
            if found.whole:
                continue
        left.append(name_of(every[min(some)]))
    if left:
        parted.undecided.append(f"whether they part elsewhere, around {first_few(left)}")


class _Comparison:
    """
    Compare two sets of rules by few of their contracts: those that changed, and what stands in their way.

    With fewer contracts sessions can do no less, so a shortest trace of few that a session of all goes along
    with is a shortest of all. Where a session of all refuses a call of it, whatever refuses is watched too.
    """

    def __init__(
        self, old: Side, new: Side, every: Sequence[Declaration], about: Mapping[str, Sequence[int]]
    ) -> None:
        self._old = old
        self._new = new
        self._every = every
        # What begins otherwise is not said by contracts.
        self._goes_straight = old.state == new.state
        self._calls = names_about(about)
        self._named: dict[str, set[int]] = {}
        for place, contract in enumerate(every):
            self._named.setdefault(name_of(contract), set()).add(place)
        # What is called otherwise on the new side is one contract all the same.
        for now, was in new.called.items():
            both = self._named.get(now, set()) | self._named.get(was, set())
            self._named |= {now: both, was: both}

    def search(self, changed: set[int], budget: Budget) -> Parted:
        """Look for where they part, until nothing more stands in the way or the budget is spent."""
        # A change of a contract may stand on both sides under one name, about other tools on each.
        parted, watched = Parted(), self._called_alike(changed)
        ends = any(self._every[place].at_end for place in watched)
        while True:
            places = tuple(sorted(watched))
            component = Component(places, self._names(places))
            near = budget.part(_NEAR) if self._goes_straight else budget
            pair = Pair(self._old, self._new, self._every, component, near, ends=ends)
            whole = pair.search(parted)
            more = set().union(*(self._named[name] for name in pair.in_the_way)) - watched
            if not more or near.spent:
                break
            watched |= more
        decided = False
        if (pair.unshown or not whole) and self._goes_straight:
            decided = self._straight(changed, pair, parted, budget, ends=ends)
        if pair.unknown:
            who = ", ".join(sorted(pair.unknown))
            parted.undecided.append(f"whether they part where {who} refuses too, which is not analysed")
        if pair.unshown and not decided and None in (parted.stricter, parted.looser):
            other = "" if parted.stricter is parted.looser is None else " in the other direction too"
            parted.undecided.append(f"whether they part{other}: {UNSHOWN}")
        if pair.unshown_end and None in (parted.owed, parted.forgiven):
            parted.undecided.append(f"whether they part at the end: {UNSHOWN}")
        parted.whole = whole or decided
        return parted

    def _straight(
        self, changed: Iterable[int], pair: Pair, parted: Parted, budget: Budget, *, ends: bool
    ) -> bool:
        """
        Go straight for calls that what changed alone refuses, and tell whether all was decided.

        What is new refuses what was let through, if it alone does together with all that was there, and the
        other way round. What a session ends with is not asked so.
        """
        # Of the two directions, those in which it is not known: stricter, or looser.
        open_: set[bool] = set()
        asked = sorted(changed)
        for number, place in enumerate(asked):
            stricter = place >= len(self._old.known)
            if parted.in_calls(stricter=stricter) is not None or budget.spent:
                continue
            side = self._old if stricter else self._new
            one = copy.copy(self._every[place])
            one.id = f"{name_of(one)} that changed"
            part = budget.part(len(asked) - number)
            possible, rows = deciding([*side.every, one], one, side.state, part)
            if possible is not False and not (rows and pair.show(rows, parted)):
                open_.add(stricter)
        open_ -= {stricter for stricter in open_ if parted.in_calls(stricter=stricter) is not None}
        at_end = ends and None in (parted.owed, parted.forgiven)
        return not open_ and not at_end and not budget.spent

    def _names(self, places: Sequence[int]) -> tuple[str, ...]:
        """Give the tools whose calls are tried: of what halts sessions, one more, which is refused then."""
        more = (OTHER,) if any(self._every[place].on_violation == "halt" for place in places) else ()
        return tuple(dict.fromkeys((*names_near(self._calls, places), *more)))

    def _called_alike(self, places: Iterable[int]) -> set[int]:
        names = {name_of(self._every[place]) for place in places}
        return set().union(*(self._named[name] for name in names))
