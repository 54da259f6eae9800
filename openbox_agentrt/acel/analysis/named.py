"""Name contracts as reports do."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts.base import SessionRule, TemporalContract

__all__ = ("Named", "name_of")


def name_of(contract: TemporalContract | SessionRule) -> str:
    """Name a contract as reports do: by its id, or by its text where it has none."""
    return contract.id or contract.spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """
    A contract, as a report names it.

    Attributes:
        name: Its id, or its text where it has none.
        spec: Its text.
        line: Its line in the file, where known.
    """

    name: str
    spec: str
    line: int | None = None

    def __str__(self) -> str:
        said = self.name if self.name == self.spec else f"{self.name}, {self.spec}"
        return said if self.line is None else f"{said} (line {self.line})"
