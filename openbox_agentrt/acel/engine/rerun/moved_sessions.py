"""
Sessions that moved between workers: what one left is what the other went on with, or it is named.

A worker marks in its log each state of a session that others may go on with, and one that takes it over says
by which mark, and whose. With the logs of both, the memory that follows from the steps of the one is what the
steps of the other begin with, also where the log of the other hides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOVES = ("left", "restore")


@dataclass(frozen=True, slots=True)
class LeftMemory:
    """
    Hold what a session remembered when it was left.

    Attributes:
        memory: What follows from the steps; None if they do not show all of it.
        cells: The names of the cells that it is known of what they hold.
        is_whole: Whether nothing else is kept of the session.
    """

    memory: Mapping[str, Any] | None
    cells: frozenset[str] = frozenset()
    is_whole: bool = False


class Moves:
    """Know what was left by each session that is followed, for those that went on with it."""

    def __init__(self) -> None:
        self._wanted: set[tuple[str, str]] = set()
        self._left: dict[tuple[str, str], LeftMemory] = {}
        # Keys under which journals hide their marks; marks of different ones cannot be compared.
        self._keys: dict[str, str] = {}
        self._running: set[str] = set()

    def expect(self, run: str, steps: Sequence[tuple[int, Mapping[str, Any]]]) -> bool:
        """Take note that a session will be followed. Returns whether it moved."""
        moving = [step for _, step in steps if step.get("e") in _MOVES and isinstance(step.get("mark"), str)]
        for step in moving:
            if isinstance(step.get("left_by"), str):
                self._wanted.add((step["left_by"], step["mark"]))
        # What it did last, nobody can have gone on with who was not told of it.
        if moving and moving[-1] is steps[-1][1] and moving[-1]["e"] == "left":
            self._keys[run] = _key_of(moving[-1]["mark"])
        if moving:
            self._running.add(run)
        return bool(moving)

    def is_wanted(self, run: str, mark: str) -> bool:
        """Tell whether somebody went on with what was left."""
        return (run, mark) in self._wanted

    def leave(self, run: str, mark: str, left: LeftMemory) -> None:
        """Take note of what was left."""
        self._left[run, mark] = left

    def end(self, run: str) -> None:
        """Take note that a session was followed to its end, or as far as it can be."""
        self._running.discard(run)

    def end_all(self) -> None:
        """Wait for nobody any more: those that are left wait for each other."""
        self._running.clear()

    def is_awaited(self, step: Mapping[str, Any]) -> bool:
        """Tell whether what a session went on with may still come up in the steps of another."""
        left_by = step.get("left_by")
        return left_by in self._running and (left_by, step["mark"]) not in self._left

    def left_for(self, step: Mapping[str, Any]) -> LeftMemory | None:
        """Find what a session went on with; None if it is not in these logs."""
        return self._left.get((step.get("left_by", ""), step.get("mark", "")))

    def is_missed(self, step: Mapping[str, Any]) -> bool:
        """Tell whether the journal of whoever should have left it is there, and does not say so."""
        left_by = step.get("left_by", "")
        known = self._keys.get(left_by)
        return known is not None and known == _key_of(step["mark"]) and self.left_for(step) is None


def _key_of(mark: str) -> str:
    """Name the key that a mark was hidden under; empty for one that is shown."""
    return mark.rpartition(" ")[0]
