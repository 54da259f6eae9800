"""The present time as text, ISO 8601 with microseconds, for records. It loads nothing: a hook has no time."""

from __future__ import annotations

import time
from collections.abc import Callable


def utc_clock(seconds: Callable[[], float] = time.time) -> Callable[[], str]:
    """
    A clock that gives ISO 8601 in UTC with microseconds, e.g. ``2026-01-02T03:04:05.678901+00:00``.

    It is asked for every record, so it formats the second only when there is a new one. Not safe for several
    threads at once.
    """
    last = -1
    prefix = ""

    def now() -> str:
        nonlocal last, prefix
        moment = seconds()
        second = int(moment)
        if second != last:
            last = second
            prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{prefix}.{int((moment - second) * 1_000_000):06d}+00:00"

    return now
