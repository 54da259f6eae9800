"""Say numbers, lengths of time and moments as a person would."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

from .._plain.times import seconds_of

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LONGEST_SECONDS = 1e12


def count(number: int, one: str, many: str | None = None) -> str:
    """Say a number with its noun: ``one call``, ``12 calls``."""
    said = _NUMBERS[number] if 0 <= number < len(_NUMBERS) else f"{number:,}"
    return f"{said} {one if number == 1 else many or one + 's'}"


@overload
def whole_number(text: str | None, *, otherwise: int = 0) -> int: ...
@overload
def whole_number(text: str | None, *, otherwise: None) -> int | None: ...
def whole_number(text: str | None, *, otherwise: int | None = 0) -> int | None:
    """Read a number that a browser has sent; `otherwise` for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else otherwise


def sentence(text: str) -> str:
    """Begin with a capital letter."""
    return text[:1].upper() + text[1:]


def lasting(seconds: float) -> str:
    """Say a length of time in the unit of its size: ``13 µs``, ``1.4 ms``, ``3 min 40 s``."""
    seconds = max(0.0, seconds)
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.02 else f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return left(seconds)


def left(seconds: float) -> str:
    """Say a length of time in whole seconds: ``3 min 40 s``."""
    whole = _whole(seconds)
    for size, unit, below, smaller in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def _whole(seconds: float) -> int:
    # What a forged log says may be infinite, once two numbers of it are added.
    return int(min(max(0.0, seconds), _LONGEST_SECONDS))


def age(seconds: float) -> str:
    """Say roughly how long something lasts: ``6 min``."""
    whole = _whole(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def clock(moment: float) -> str:
    """Give the time of day: ``03:11:21``."""
    return _at(moment).strftime("%H:%M:%S")


def exact(moment: float) -> str:
    """Give date and time: ``2027-02-11 03:11:21 UTC``."""
    return _at(moment).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(moment: float) -> str:
    """Give date and time for programs: ``2027-02-11T03:11:21Z``."""
    return _at(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str) -> float:
    """Read what `iso` or an evidence log writes; 0 for anything else."""
    return seconds_of(text) or 0.0


def short_hash(digest: str) -> str:
    """Give the beginning and the end of a hash in groups: ``9f2c 41ab … d07e``."""
    return f"{digest[:4]} {digest[4:8]} … {digest[-4:]}"


def _at(moment: float) -> datetime:
    try:
        return datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
