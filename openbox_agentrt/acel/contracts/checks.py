"""Check what contracts are built with: numbers, and options."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

from ..wording import shown


def check_seconds(name: str, value: object) -> float:
    """
    Accept a positive, finite number.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        with contextlib.suppress(OverflowError):
            return float(value)
    raise ValueError(f"{name} must be positive, in seconds, got {shown(value)}")


def check_count(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """
    Accept a whole number in a range.

    Raises:
        ValueError: It is out of range.
        TypeError: It is not a whole number.
    """
    if type(value) is int and value >= least and most is None:
        return  # as nearly always, also for a session, which is to be opened quickly
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {shown(value)}")
    if value < least:
        wanted = "non-negative" if least == 0 else f"at least {least}"
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(value)}")


def one_of(options: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: Any = None) -> Any:
    """
    Read an option that is one of some words; `default` if it is not given.

    Raises:
        ValueError: It is none of them.
    """
    value = options.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    return value


def flag(options: Mapping[str, Any], name: str) -> bool | None:
    """
    Read an option that is true or false; None if it is not given.

    Raises:
        TypeError: It is neither.
    """
    value = options.get(name)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return value
