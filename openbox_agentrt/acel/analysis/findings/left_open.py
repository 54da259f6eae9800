"""Collect what was not decided, with the reasons, and say it: of everything that is alike in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...contracts.declaration import Declaration
from ..conditions.followed import open_parts
from ..named import Named
from ..sentences import first_few, readable

__all__ = ("DECIDES", "ENDS", "LeftOpen", "either_way")

DECIDES = "whether each of {} ever decides"
ENDS = "whether every session can end with {} met"
_LET_THROUGH = "whether calls of {} are ever let through"


class LeftOpen:
    """
    Collect what was not decided.

    Args:
        named: How contracts are named.
        has_all_names: Whether the tools are known that patterns over names fit.

    Attributes:
        open: The contracts of which something was not decided.
    """

    def __init__(self, named: Sequence[Named], *, has_all_names: bool) -> None:
        self._named = named
        self._has_all_names = has_all_names
        self._names: dict[tuple[str, str], list[str]] = {}
        self.open: set[int] = set()

    def add_tools(self, tools: Iterable[str], *, because: str) -> None:
        """Note tools of which nobody knows whether calls are let through."""
        for tool in tools:
            self._names.setdefault((_LET_THROUGH, because), []).append(repr(tool))

    def add(self, what: str, places: Iterable[int], *, because: str) -> None:
        """Note contracts of which something is not known."""
        for place in places:
            self.open.add(place)
            self._names.setdefault((what, because), []).append(self._named[place].name)

    def said(self) -> list[str]:
        """Say it."""
        patterns = "which tools fit which patterns over names: there are too many patterns"
        said = [f"{what.format(first_few(of))}, since {why}" for (what, why), of in self._names.items()]
        return [*([] if self._has_all_names else [patterns]), *said]


def either_way(contracts: Iterable[Declaration]) -> str:
    """Say which part of conditions is taken either way, if any is."""
    parts = list(dict.fromkeys(part for contract in contracts for part in open_parts(contract)))
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return f"this is taken either way: {readable(parts[0]):.100}{more}" if parts else ""
