"""Rules files under the names that acel-core gives them. The home of the code is `acel.rulesfile`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .contracts.base import TemporalContract
from .rulesfile.document import Document, read_document
from .rulesfile.errors import ConfigError
from .rulesfile.parts import Parts
from .rulesfile.rules import Rules, parse_rules, read_rules

__all__ = (
    "ConfigError",
    "Rules",
    "contracts_by_group_from_rules",
    "contracts_from_rules",
    "load_contracts",
    "load_rules",
    "parse_rules",
    "read_rules",
    "state_from_rules",
)


class _LoadedRules(dict[str, Any]):
    """A rules file as a plain mapping that still knows its lines."""

    def __init__(self, document: Document) -> None:
        super().__init__(document.data)
        self.document = document


def load_rules(path: str | os.PathLike[str]) -> dict[str, Any]:
    """
    Load a rules file as a plain mapping, read strictly and not yet understood; see `read_rules`.

    Raises:
        ConfigError: If it is missing or malformed.
    """
    return _LoadedRules(read_document(path))


def contracts_from_rules(rules: Mapping[str, Any]) -> list[TemporalContract]:
    """
    Build the contracts that rules declare, groups put in their places, as instances of their own each time.

    Raises:
        ConfigError: If one is not understood.
    """
    parts = _parts(rules)
    return list(parts.build(parts.contracts))


def contracts_by_group_from_rules(rules: Mapping[str, Any]) -> dict[str, list[TemporalContract]]:
    """
    Build the contracts of each group, used or not.

    Raises:
        ConfigError: If one is not understood.
    """
    parts = _parts(rules)
    return {name: list(parts.build(placed)) for name, placed in parts.groups.items()}


def state_from_rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """
    Give the initial state that rules declare.

    Raises:
        ConfigError: If it is no mapping.
    """
    return _parts(rules).state


def load_contracts(path: str | os.PathLike[str]) -> list[TemporalContract]:
    """
    Load the contracts of a rules file, read strictly.

    Raises:
        ConfigError: If anything in it is not understood, or if it has none; see `read_rules`.
    """
    return list(read_rules(path).contracts)


def _parts(rules: Mapping[str, Any]) -> Parts:
    data = dict(rules)
    if not isinstance(rules, _LoadedRules):
        return Parts(Document(data=data))
    known = rules.document
    return Parts(Document(data=data, name=known.name, text=known.text, lines=known.lines))
