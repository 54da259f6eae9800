"""Calendar periods in a time zone, as instants in microseconds of UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from .._plain.calendar import Per
from .errors import FleetConfigError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


SECOND = 1_000_000

PRESENT: Final[Mapping[Per, str]] = {
    "hour": "this hour",
    "day": "today",
    "week": "this week",
    "month": "this month",
}
"""What the present period is called."""


def zone(name: str) -> ZoneInfo:
    """
    Find a time zone by its name.

    Raises:
        FleetConfigError: There is none of this name.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise FleetConfigError(f"there is no time zone {name!r}: write one like 'Europe/Berlin'") from error


def edges_around(per: Per, tz: str, now: int) -> tuple[int, ...]:
    """
    Give the starts of the period before `now`, its own, and the two after it, and where the last ends.

    A day is what the zone's clocks call a day: 23 or 25 hours where they change. An hour begins
    where they show a full one.
    """
    return _edges(per, tz, now // (900 * SECOND))


def end_of_period(per: Per, tz: str, now: int) -> int:
    """Tell when the period is over that `now` is in."""
    return next(edge for edge in edges_around(per, tz, now) if edge > now)


@lru_cache(256)
def _edges(per: Per, tz: str, quarter: int) -> tuple[int, ...]:
    # No zone changes its offset within a quarter of an hour, so within one the edges are the same.
    now = quarter * 900
    moment = datetime.fromtimestamp(now, zone(tz))
    if per == "hour":
        offset = int((moment.utcoffset() or timedelta()).total_seconds())
        start = (now + offset) // 3600 * 3600 - offset
        return tuple((start + 3600 * step) * SECOND for step in (-1, 0, 1, 2, 3))
    return tuple(_start(_day(per, moment.date(), step), tz) for step in (-1, 0, 1, 2, 3))


def _day(per: Per, day: date, step: int) -> date:
    if per == "day":
        return day + timedelta(days=step)
    if per == "week":
        return day + timedelta(days=7 * step - day.weekday())
    months = day.year * 12 + day.month - 1 + step
    return date(months // 12, months % 12 + 1, 1)


def _start(day: date, tz: str) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=zone(tz)).timestamp()) * SECOND
