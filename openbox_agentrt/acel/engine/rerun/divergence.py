"""A recorded decision that is not the one that follows from the rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """
    A decision that does not follow from the rules.

    Attributes:
        number: Position of the step in the log.
        step: Position of the call in its session.
        tool: The tool.
        recorded: What was decided, in words.
        derived: What follows.
    """

    number: int
    step: int | None
    tool: str | None
    recorded: str
    derived: str
