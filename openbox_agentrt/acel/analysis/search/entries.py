"""Find the entries of a session's state that contracts read: their values, and how old they may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...contracts.declaration import Declaration
from ...contracts.rules import Guard
from ..calls.alphabet import Alphabet
from ..rules.analysable import guards_of

__all__ = ("Entries", "entries_of")


@dataclass(slots=True)
class Entries:
    """
    List the entries of a session's state that contracts read.

    Attributes:
        values: Of each entry, the values that are tried.
        groups: Of each entry that is a mapping, the group of its names.
        windows: Of each entry whose age contracts look at, the windows, in their order.
        oldest: The age from which all are alike.
    """

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, str | None] = field(default_factory=dict)
    windows: dict[str, list[float]] = field(default_factory=dict)
    oldest: float = 0.0


def entries_of(contracts: Sequence[Declaration], alphabet: Alphabet) -> Entries:
    """Find the entries that contracts read."""
    found = Entries()
    for contract in contracts:
        for guard in guards_of(contract):
            if guard.kind == "state":
                _note_entry(found, guard, alphabet)
    for values in found.values.values():
        other: Any = False if any(value is True for value in values.values()) else None
        values.setdefault(repr(other), other)
    return found


def _note_entry(found: Entries, guard: Guard, alphabet: Alphabet) -> None:
    found.values.setdefault(guard.entry, {})[repr(guard.value)] = guard.value
    form = None if guard.key is None else guard.key.form()
    found.groups.setdefault(guard.entry, None if form is None else alphabet.groups.get(str(form)))
    if guard.within is not None:
        known = found.windows.setdefault(guard.entry, [])
        known[:] = sorted({*known, guard.within})
        found.oldest = max(found.oldest, guard.within + 1)
