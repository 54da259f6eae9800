"""
Values of keys that are one to some contracts, and several to others: ``fold`` is not the same on all.

Where it is, all spellings of a value are alike, and none but one is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...._plain.spelling import Fold
from ...contracts.declaration import Declaration
from ..conditions.facts_told import facts_in, key_slot
from ..rules.analysable import guards_of, key_paths

__all__ = ("MOST_SPELLINGS", "folds_of", "spellings")

MOST_SPELLINGS = 4
"""So many spellings of a value are tried at most."""

_NAMES = ("ann", "bob", "cyd", "dan", "eve", "fay", "gus", "hal")


def folds_of(contracts: Iterable[Declaration], groups: Mapping[str, str]) -> dict[str, set[Fold | None]]:
    """
    Find by group which spellings of its values are one.

    Args:
        contracts: The contracts.
        groups: Of each path of a key, the group of values that it is of.
    """
    found: dict[str, set[Fold | None]] = {}
    contracts = list(contracts)
    for path, fold in (
        *itertools.chain.from_iterable(map(_folds_in, contracts)),
        *_folds_of_facts(contracts),
    ):
        found.setdefault(groups[path], set()).add(fold)
    return found


def spellings(folds: Iterable[Fold | None], count: int) -> Iterator[str]:
    """Spell so many values in so many ways each, as far as there are some, that are one under some folds."""
    every = set(folds)
    for name in _NAMES[:count] if "case" in every else ():
        yield from (name, name.upper(), name.title(), name[:-1] + name[-1].upper())[:count]
    for number in range(1, count + 1) if "number" in every else ():
        yield from (f"{number}.5{'0' * more}" for more in range(min(count, MOST_SPELLINGS)))


def _folds_in(contract: Declaration) -> Iterator[tuple[str, Fold | None]]:
    if contract.split is not None:
        yield from ((path, contract.split.fold) for path in key_paths(contract, None))
    for guard in guards_of(contract):
        if guard.kind == "distinct" and guard.cell is not None and guard.cell.field is not None:
            yield guard.cell.field, guard.cell.fold


def _folds_of_facts(contracts: Sequence[Declaration]) -> Iterator[tuple[str, Fold | None]]:
    for fact in facts_in(contracts):
        slot = key_slot(fact)
        if slot is not None:
            yield slot, fact.fold
