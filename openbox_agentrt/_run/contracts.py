"""Conditions that stand at a tool's own function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..acel.contracts.conditions import collect_checks

if TYPE_CHECKING:
    from ..acel.session import Session

__all__ = ("adopt_conditions",)


def adopt_conditions(contracts: Session | None, tool: str, handler: object) -> None:
    """Let preconditions and postconditions that decorate a tool's handler apply to the tool."""
    if contracts is None or not callable(handler):
        return
    before, after = collect_checks(handler)
    # What was registered for the tool on purpose comes first.
    if (before or after) and not contracts.has_conditions(tool):
        contracts.register(handler, name=tool)
