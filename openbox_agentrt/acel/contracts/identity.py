"""The identity of a set of rules: a hash that is equal for equal rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from .base import TemporalContract
from .declaration import Declaration

__all__ = ("rules_hash",)


def rules_hash(contracts: Iterable[TemporalContract]) -> str:
    """
    Hash a set of contracts: equal for equal rules in any order, whoever built them.

    A function used as a matcher takes part by its name only.
    """
    rules = sorted(json.dumps(_described(contract)) for contract in contracts)
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()


def _described(contract: TemporalContract) -> list[Any]:
    kind = type(contract)
    name = kind.template if issubclass(kind, Declaration) else f"{kind.__module__}.{kind.__qualname__}"
    roles = [role.selector.label for role in contract.roles] if isinstance(contract, Declaration) else []
    return [name, contract.spec, roles, contract.id, contract.mode, contract.severity, contract.on_violation]
