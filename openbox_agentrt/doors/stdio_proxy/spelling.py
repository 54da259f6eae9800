"""
Keys of a call that a lax server may take for a field that a contract names.

A decoder that folds case reads ``Amount`` as ``amount``, and one that trims names reads ``"amount "`` so: a
contract over ``amount`` would find nothing, and the server would pay. Such a call is refused, at whatever
depth the key stands.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..._plain.spelling import spelt_text
from ...acel import TemporalContract
from ...acel.contracts.fields import named_fields


@functools.lru_cache(maxsize=4096)
def folded(key: str) -> str:
    """
    Give one spelling for the keys that some reader takes for one.

    Case, blanks, characters that are not shown and the forms of one letter (full width, ligatures) make no
    difference.
    """
    return "".join(spelt_text(unicodedata.normalize("NFKC", key), "case").split())


class NamedFields:
    """
    Know the fields that contracts name, in every spelling that some reader takes for them.

    Args:
        contracts: The contracts. What a function of the user's own reads is not known.
    """

    def __init__(self, contracts: Iterable[TemporalContract]) -> None:
        names = {part for contract in contracts for field in named_fields(contract) for part in _parts(field)}
        self._names = frozenset(names)
        self._folded = {folded(name): name for name in names}

    def misspelt(self, args: Mapping[str, Any]) -> str | None:
        """Find a field that a key of the arguments could be taken for and is not; None if there is none."""
        if not self._folded:
            return None
        waiting: list[Any] = [args]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Mapping):
                for key in part:
                    if key not in self._names and folded(key) in self._folded:
                        return self._folded[folded(key)]
                waiting.extend(part.values())
            elif isinstance(part, list):
                waiting.extend(part)
        return None


def _parts(field: str) -> Iterator[str]:
    yield field
    # What stands for every element is the name of none.
    yield from (part for part in field.split(".") if part != "*")
