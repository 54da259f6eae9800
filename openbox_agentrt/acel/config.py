"""Rules files under the names that acel-core gives them. The home of the code is `acel.rulesfile`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .contracts.base import TemporalContract
from .rulesfile.building import build
from .rulesfile.document import read_document
from .rulesfile.errors import ConfigError
from .rulesfile.rules import (
    LoadedRules,
    Rules,
    as_document,
    expand,
    groups_in,
    parse_rules,
    read_rules,
    state_in,
)
from .rulesfile.shapes import RulesShape, shaped

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


def load_rules(path: str | os.PathLike[str]) -> dict[str, Any]:
    """
    A rules file as a plain mapping, read strictly and not yet understood; see `read_rules`.

    Raises:
        ConfigError: If it is missing or malformed.
    """
    return LoadedRules(read_document(path))


def contracts_from_rules(rules: Mapping[str, Any]) -> list[TemporalContract]:
    """
    The contracts that rules declare, groups put in their places, as instances of their own each time.

    Raises:
        ConfigError: If one is not understood.
    """
    document = as_document(rules)
    shape = shaped(document.data, RulesShape, document, ())
    return [build(spec, document, place) for place, spec in expand(document, shape)]


def contracts_by_group_from_rules(rules: Mapping[str, Any]) -> dict[str, list[TemporalContract]]:
    """
    The contracts of each group, used or not.

    Raises:
        ConfigError: If one is not understood.
    """
    document = as_document(rules)
    groups = groups_in(document, shaped(document.data, RulesShape, document, ()))
    return {name: [build(spec, document, place) for place, spec in specs] for name, specs in groups.items()}


def state_from_rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """
    The initial state that rules declare.

    Raises:
        ConfigError: If it is no mapping.
    """
    document = as_document(rules)
    return state_in(shaped(document.data, RulesShape, document, ()))


def load_contracts(path: str | os.PathLike[str]) -> list[TemporalContract]:
    """
    The contracts of a rules file, read strictly.

    Raises:
        ConfigError: If anything in it is not understood, or if it has none; see `read_rules`.
    """
    return list(read_rules(path).contracts)
