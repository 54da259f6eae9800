"""Counts of what there is any number of: all of it is counted, and the first of it is told apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ("Found", "Shares")

T = TypeVar("T")

MOST_NAMED = 1_000
"""So many are told apart, so that memory does not grow with a recording."""


@dataclass(slots=True, kw_only=True)
class Found(Generic[T]):
    """
    Count what comes once each.

    Attributes:
        count: How many there were.
        first: The first of them.
    """

    count: int = 0
    first: list[T] = field(default_factory=list)

    def add(self, item: T) -> None:
        """Count one more."""
        self.count += 1
        if self.count <= MOST_NAMED:
            self.first.append(item)

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(slots=True, kw_only=True)
class Shares:
    """
    Count how often each of several values came.

    Attributes:
        of: How often each of the first values came.
        others: How often all other values came.
    """

    of: Counter[str] = field(default_factory=Counter)
    others: int = 0

    def add(self, value: str) -> None:
        """Count a value."""
        if value in self.of or len(self.of) < MOST_NAMED:
            self.of[value] += 1
        else:
            self.others += 1

    def total(self) -> int:
        """Count all values."""
        return self.of.total() + self.others

    def __bool__(self) -> bool:
        return bool(self.of)
