"""The customer, or whatever else it is, that a session in a search is about."""

from __future__ import annotations

from collections.abc import Iterable

from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ...match.keys import OF_SUBJECT
from .analysable import key_paths

__all__ = ("SUBJECT", "subject_of")

SUBJECT = "A"


def subject_of(contracts: Iterable[TemporalContract]) -> dict[str, str]:
    """Give a session everything that keys read of what it is about."""
    declared = (contract for contract in contracts if isinstance(contract, Declaration))
    paths = {path for contract in declared for path in key_paths(contract, None)}
    return {path.removeprefix(OF_SUBJECT): SUBJECT for path in sorted(paths) if path.startswith(OF_SUBJECT)}
