"""Read how long ago what a cell remembers was, by its kind, and put other ages in the place of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ("ages_of", "with_ages")


def ages_of(kind: str, frozen: Any) -> tuple[float, ...]:
    """Give the ages in what a cell with a window remembers, without a key or of one value of it."""
    match kind:
        case "stamps" | "tokens" | "fresh" | "pending":
            return tuple(frozen)
        case "marks":
            return tuple(frozen[0])
        case "sum":
            return tuple(age for age, _ in frozen[2])
        case "distinct" | "values" | "words":
            return tuple(age for age, _ in frozen)
        case _:
            return () if frozen is None else (frozen,)


def with_ages(kind: str, frozen: Any, ages: Sequence[float]) -> Any:
    """Put other ages in the place of those that `ages_of` gives."""
    match kind:
        case "stamps" | "tokens" | "fresh":
            return tuple(ages)
        case "pending":
            return tuple(sorted(set(ages), reverse=True))
        case "marks":
            return tuple(ages), frozen[1]
        case "sum":
            return (*frozen[:2], tuple(zip(ages, (amount for _, amount in frozen[2]), strict=True)))
        case "distinct" | "values" | "words":
            return tuple(zip(ages, (value for _, value in frozen), strict=True))
        case _:
            return ages[0] if ages else frozen
