"""Times as text, as RFC 3339 has them on the wire, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from .codec import fast_codec

_WITH_MICROSECONDS: Final = len('"2026-01-02T03:04:05.678901Z"')


def rfc3339(moment: datetime | float) -> str:
    """
    Write a time in UTC, in milliseconds, with a ``Z``.

    Args:
        moment: A naive one counts as UTC; a number as seconds since 1970.
    """
    if type(moment) is not datetime or moment.tzinfo is not UTC:
        if not isinstance(moment, datetime):
            moment = datetime.fromtimestamp(moment, UTC)
        moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        if type(moment) is not datetime:
            # A subclass, such as those of pandas and freezegun, which the encoder does not take.
            return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
    text = fast_codec().encode(moment).decode()  # in quotes, with six digits or none
    return f"{text[1:24]}Z" if len(text) == _WITH_MICROSECONDS else f"{text[1:20]}.000Z"


def seconds_of(text: object) -> float | None:
    """Read a time in ISO 8601 as seconds since 1970; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None


utc_now: Final[Callable[[], datetime]] = partial(datetime.now, UTC)
"""Gives the present time in UTC."""
