"""Find the values of keys in what a session remembers, and call them by other names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..calls.alphabet import Alphabet
from ..conditions.facts_told import key_slot
from .cell_view import CellView
from .state import State, sort_flights

__all__ = ("AlikeValues", "Names")

Names: TypeAlias = dict[str, dict[str, str]]
"""Of each group of values, how they are called in another state."""

_Groups: TypeAlias = tuple["tuple[str, ...]", "str | None"]
"""The groups of the parts of a cell's key, and of the values that it tells apart."""


class AlikeValues:
    """
    Find the values of keys in the states of a session, and give the states with other values.

    Args:
        views: The cells of the session.
        entries: Of each entry of its state that is a mapping, the group of its names.
        alphabet: The calls.

    Attributes:
        related: The groups of values of which one cell knows several.
    """

    def __init__(
        self, views: Sequence[CellView], entries: Mapping[str, str | None], alphabet: Alphabet
    ) -> None:
        self._groups = [_groups_of(view, alphabet) for view in views]
        self._entries = entries
        together = [(*keys, *(() if inner is None else (inner,))) for keys, inner in self._groups]
        self.related = frozenset(group for some in together if len(some) > 1 for group in some)

    def present(self, state: State) -> Iterator[tuple[str, str, Any]]:
        """Find the values that a state knows: the group of each, and what is said of it."""
        for place, (groups, frozen) in enumerate(zip(self._groups, state.cells, strict=True)):
            for position, group, name, about in _names_in(groups, frozen):
                yield group, name, (place, position, about)
        for _, kind, values in state.flying:
            of_path = dict(kind.slots)
            yield from ((of_path[path], value, (kind.tool, repr(kind.args), path)) for path, value in values)
        for entry, value, _ in state.entries:
            of = self._entries.get(entry)
            for inner, said in value if of is not None and isinstance(value, tuple) else ():
                yield str(of), inner, (entry, said)

    def renamed(self, state: State, names: Names) -> State:
        """Call the values of a state by other names."""
        cells = tuple(
            _renamed_names(groups, frozen, names)
            for groups, frozen in zip(self._groups, state.cells, strict=True)
        )
        entries = tuple(
            (name, self._entry_renamed(name, value, names), age) for name, value, age in state.entries
        )
        flying = (
            (age, kind, tuple((p, names.get(dict(kind.slots)[p], {}).get(v, v)) for p, v in values))
            for age, kind, values in state.flying
        )
        return replace(state, cells=cells, entries=entries, flying=sort_flights(flying))

    def _entry_renamed(self, name: str, value: Any, names: Names) -> Any:
        group = self._entries.get(name)
        if group is None or not isinstance(value, tuple):
            return value
        known = names.get(group, {})
        return tuple(sorted({known.get(inner, inner): said for inner, said in value}.items()))


def _groups_of(view: CellView, alphabet: Alphabet) -> _Groups:
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


def _names_in(groups: _Groups, frozen: Any) -> Iterator[tuple[int, str, str, Any]]:
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


def _renamed_names(groups: _Groups, frozen: Any, names: Names) -> Any:
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
