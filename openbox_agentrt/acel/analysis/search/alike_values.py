"""Find the values of keys in what cells remember, and call them by other names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..calls.alphabet import Alphabet
from ..conditions.facts_told import key_slot
from .memory_view import CellView

__all__ = ("Groups", "Names", "groups_of", "names_in", "related_groups", "renamed_names")

Names: TypeAlias = dict[str, dict[str, str]]
"""Of each group of values, how they are called in another state."""

Groups: TypeAlias = tuple["tuple[str, ...]", "str | None"]
"""The groups of the parts of a cell's key, and of the values that it tells apart."""


def groups_of(view: CellView, alphabet: Alphabet) -> Groups:
    """Give the groups of the values that a cell knows."""
    inner = alphabet.groups.get(view.cell.field or "") if view.cell.kind == "distinct" else None
    if view.cell.fact is not None:
        slot = key_slot(view.cell.fact)
        return (() if slot is None else (alphabet.groups[slot],)), None
    form = None if view.cell.key is None else view.cell.key.form()
    if form is None:
        return (), inner
    paths = [form] if isinstance(form, str) else list(form.values())[:1] if isinstance(form, dict) else form
    return tuple(alphabet.groups[path] for path in paths), inner


def related_groups(views: Sequence[CellView], groups: Sequence[Groups]) -> frozenset[str]:
    """Find the groups whose values a cell sees together with those of another."""
    found: set[str] = set()
    for (keys, inner), _ in zip(groups, views, strict=True):
        together = (*keys, *(() if inner is None else (inner,)))
        found |= set(together) if len(together) > 1 else set()
    return frozenset(found)


def names_in(groups: Groups, frozen: Any) -> Iterator[tuple[int, str, str, Any]]:
    """Find the values in what a cell remembers: at which place, of which group, and what is said of each."""
    keys, inner = groups
    if not keys:
        if inner is not None:
            yield from ((0, inner, value, age) for value, age in _values_in(frozen))
        return
    for name, value in frozen:
        parts = _parts(name, keys)
        about = value if inner is None else len(value)
        yield from ((p, group, part, about) for p, (group, part) in enumerate(zip(keys, parts, strict=True)))
        if inner is not None:
            yield from ((len(keys), inner, known, age) for known, age in _values_in(value))


def _values_in(frozen: Any) -> Iterator[tuple[str, float]]:
    for value in frozen:
        yield (value, 0.0) if isinstance(value, str) else (value[1], value[0])


def _parts(name: str, keys: tuple[str, ...]) -> list[str]:
    return [name] if len(keys) == 1 else json.loads(name)


def renamed_names(groups: Groups, frozen: Any, names: Names) -> Any:
    """Write what a cell remembers with other names of values."""
    keys, inner = groups
    if not keys:
        return frozen if inner is None else _values_renamed(frozen, names.get(inner, {}))
    found = {}
    for name, value in frozen:
        parts = [names.get(g, {}).get(p, p) for g, p in zip(keys, _parts(name, keys), strict=True)]
        new = parts[0] if len(keys) == 1 else json.dumps(parts, ensure_ascii=False)
        found[new] = value if inner is None else _values_renamed(value, names.get(inner, {}))
    return tuple(sorted(found.items()))


def _values_renamed(frozen: Any, names: Mapping[str, str]) -> Any:
    if all(isinstance(value, str) for value in frozen):
        return tuple(sorted(names.get(value, value) for value in frozen))
    return tuple((age, names.get(value, value)) for age, value in frozen)
