"""
The calls that are tried: few enough to search, and one of each kind that contracts tell apart.

A tool, a combination of the patterns over its arguments, values of its keys, and amounts around the limits.
Values of keys are alike until a session has seen them, so a state says which there are and one more is new.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from ...._plain.amounts import Amount, add, subtract
from ...._plain.calendar import Per
from ...contracts.counting import AtMostInFlight
from ...contracts.declaration import Declaration
from ...match.keys import OF_SUBJECT
from ..budget import Budget
from ..conditions.facts_told import domains_of, facts_in, joined_keys
from ..rules.analysable import field_paths, guards_of, key_paths
from ..rules.components import MANY_VALUES, MOST_VALUES, values_needed
from ..rules.found_values import looked_for, slot_of, sources_of, texts_for
from ..rules.subject import SUBJECT
from .call_kind import ALL_ARGUMENTS, CallKind
from .spellings import MOST_SPELLINGS, folds_of, spellings
from .tool_calls import ToolCalls, is_about

__all__ = ("MOST_FOUND", "Alphabet", "alphabet_of", "overlapping_windows", "unit_of")

MOST_FOUND = 3
"""So many values that calls can find out are told apart at most."""

_ANOTHER = "B"


@dataclass(slots=True, kw_only=True)
class Alphabet:
    """
    The calls that are tried of some contracts.

    Attributes:
        kinds: The kinds of calls.
        groups: Of each path of a key, the group of values that it is of.
        fixed: Groups whose values patterns or sources tell apart, with these values.
        found: Of each group whose values calls find out, those that they can find.
        waits: Times that are waited.
        periods: Periods of the calendar, each with its time zone, whose end is waited for.
        flying: Tools of which contracts count the calls that are under way, and
        most_flying: so many of them are under way at once.
        refunds: Whether a contract takes back what failed, so that it matters whether a call is lost.
        most_values: So many values of a key are told apart at most.
        whole: Whether there is a call of every kind that contracts tell apart.
    """

    kinds: list[CallKind] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    waits: tuple[float, ...] = ()
    periods: tuple[tuple[Per, str], ...] = ()
    flying: frozenset[str] = frozenset()
    most_flying: int = 0
    refunds: bool = False
    most_values: int = MOST_VALUES
    whole: bool = True


def alphabet_of(
    contracts: Sequence[Declaration],
    names: Iterable[str],
    budget: Budget | None = None,
    *,
    few: bool = False,
) -> Alphabet:
    """
    Make the calls of some tools that contracts tell apart, as far as the budget allows.

    Args:
        contracts: The contracts.
        names: The tools.
        budget: How long is searched for texts that patterns tell apart.
        few: Try fewer values that conditions compare, which need not show every answer, and more of keys.
    """
    made = Alphabet(most_values=MANY_VALUES if few else MOST_VALUES)
    made.groups = _groups(contracts)
    made.waits = tuple(sorted(_waits(contracts)))
    made.periods = tuple(sorted({(c.reach.per, c.reach.tz) for c in contracts if c.reach.per is not None}))
    overlapping = [contract for contract in contracts if isinstance(contract, AtMostInFlight)]
    names = list(names)
    made.flying = frozenset(name for name in names if any(is_about(c, name) for c in overlapping))
    made.most_flying = max((contract.n for contract in overlapping), default=0)
    cells = (guard.cell for contract in contracts for guard in guards_of(contract))
    made.refunds = any(cell is not None and cell.refund for cell in cells)
    amounts = _amounts(contracts)
    domains = domains_of(contracts, amounts, few=few)
    # Of a call that is under way, only that it fails is tried, and not what it tells later.
    telling = {tool for fact in facts_in(contracts) for tool in fact.tools}
    made.whole = domains.whole and not few and made.flying.isdisjoint(telling)
    _add_found(made, contracts)
    spelt = _add_spellings(made, contracts)
    _add_subject(made)
    for name in names:
        calls = ToolCalls(contracts, name, made.groups, amounts, domains, budget, made.most_values)
        made.kinds += calls.kinds
        for group, texts in calls.fixed.items():
            # Whether one text that a pattern fits is vouched for, and another is not, is not tried,
            # nor every spelling of it.
            made.whole = made.whole and group not in made.found and group not in spelt
            made.fixed[group] = tuple(dict.fromkeys((*made.fixed.get(group, ()), *texts)))
        made.whole = made.whole and calls.whole
    return made


def unit_of(contracts: Iterable[Declaration]) -> Amount:
    """Give 1 in the last decimal place of the limits on amounts."""
    limits = [guard.n for contract in contracts for guard in guards_of(contract) if guard.kind == "spend"]
    places = [-int(Decimal(limit).as_tuple().exponent) for limit in limits]
    most = max(places, default=0)
    return Decimal(1).scaleb(-most) if most > 0 else 1


def _groups(contracts: Iterable[Declaration]) -> dict[str, str]:
    """Put the paths together whose values one key compares: one argument for each tool."""
    groups: dict[str, str] = {}
    for contract in contracts:
        form = None if contract.split is None else contract.split.form()
        joined = [list(form.values())] if isinstance(form, dict) else [[p] for p in key_paths(contract, None)]
        joined += [[path] for path in field_paths(contract, "distinct")]
        joined += [[path, *map(slot_of, sources_of(contract))] for path in looked_for(contract)]
        joined += list(joined_keys(contract))
        for together in joined:
            names = {groups.setdefault(path, path) for path in together}
            for path, group in groups.items():
                if group in names:
                    groups[path] = min(names)
    return groups


def _add_found(made: Alphabet, contracts: Sequence[Declaration]) -> None:
    """Choose the values that calls find out, for each group of arguments in which they are looked for."""
    looking: dict[str, list[Declaration]] = {}
    for contract in contracts:
        for path in looked_for(contract):
            looking.setdefault(made.groups[path], []).append(contract)
    counted = {made.groups[path] for contract in contracts for path in _counted(contract)}
    for group, some in looking.items():
        count = min(values_needed(contracts), MOST_FOUND) if group in counted else 1
        found, others, whole = texts_for(some, count)
        made.found[group] = found
        made.fixed[group] = (*found, *others)
        made.whole = made.whole and whole and (group not in counted or values_needed(contracts) <= count)


def _add_spellings(made: Alphabet, contracts: Sequence[Declaration]) -> set[str]:
    """Choose values that are one to some contracts only, and give the groups whose spellings matter."""
    folds = folds_of(contracts, made.groups)
    count = values_needed(contracts)
    for group, some in folds.items():
        if len(some) > 1:
            free = group not in made.found and group != ALL_ARGUMENTS and not group.startswith(OF_SUBJECT)
            made.fixed |= {group: tuple(spellings(some, min(count, made.most_values)))} if free else {}
            made.whole = made.whole and free and count <= MOST_SPELLINGS
    return {group for group, some in folds.items() if some != {None}}


def _add_subject(made: Alphabet) -> None:
    """Let a session be about one customer, and calls name another where a key compares the two."""
    for path, group in made.groups.items():
        if path.startswith(OF_SUBJECT) and group not in made.fixed:
            made.fixed[group] = (SUBJECT, _ANOTHER)


def _counted(contract: Declaration) -> set[str]:
    return {*key_paths(contract, None), *field_paths(contract, "distinct")}


def _windows(contracts: Iterable[Declaration]) -> Iterator[float]:
    for contract in contracts:
        for guard in guards_of(contract):
            cells = (guard.cell, guard.other, *guard.sources)
            yield from (cell.within for cell in cells if cell is not None and cell.within is not None)
            if guard.within is not None:
                yield guard.within


def _waits(contracts: Sequence[Declaration]) -> set[float]:
    """
    Choose the times that are waited: a little more than each window.

    So little more that some dozens one after the other are no other window longer. Where windows of several
    contracts overlap, one can pass while another lasts, so each to its end and half of each is waited too.
    """
    windows = set(_windows(contracts))
    if not windows:
        return set()
    little = _little(windows)
    parts = {part for w in windows for part in (w, w / 2 + little) if overlapping_windows(contracts)}
    return {window + little for window in windows} | parts


def overlapping_windows(contracts: Iterable[Declaration]) -> bool:
    """Tell whether several contracts have windows, so that one can pass while another lasts."""
    return sum(any(_windows([contract])) for contract in contracts) > 1


def _little(windows: Iterable[float]) -> float:
    """Give a power of two, so that sums are exact, of which thirty are less than windows are apart."""
    parts = [Fraction(str(window)) for window in windows]
    apart = Fraction(math.gcd(*(p.numerator for p in parts)), math.lcm(*(p.denominator for p in parts)))
    return min(1.0, 2.0 ** math.floor(math.log2(apart / 30)))


def _amounts(contracts: Sequence[Declaration]) -> dict[str, tuple[Amount, ...]]:
    """Choose the amounts around the limits on each argument: none, a limit, just over it, between two."""
    limits: dict[str, set[Amount]] = {}
    falls: set[str] = set()
    for contract in contracts:
        for guard in guards_of(contract):
            if guard.kind == "spend" and guard.cell is not None and guard.cell.field is not None:
                limits.setdefault(guard.cell.field, set()).add(guard.n)
                falls |= {guard.cell.field} if guard.cell.negative else set()
    unit = unit_of(contracts)
    amounts: dict[str, tuple[Amount, ...]] = {}
    for path, some in limits.items():
        ordered = sorted(some)
        between = [subtract(b, a) for a, b in itertools.pairwise(ordered)]
        every = {0, *between, *ordered, *(add(limit, unit) for limit in ordered)}
        every |= {-limit for limit in ordered} if path in falls else set()
        amounts[path] = tuple(sorted(every))
    return amounts
