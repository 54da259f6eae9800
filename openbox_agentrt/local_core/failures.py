"""Tell of a failure of foreign code."""

from __future__ import annotations

import sqlite3
import traceback
from pathlib import Path


def place_of(error: BaseException) -> str:
    """
    Name the kind of an error and where it was raised, e.g. ``KeyError in policy.py, line 12``.

    Without its message: what a policy trips over is part of an event, and may be what nobody should read.
    SQLite's own name for what happened, such as ``SQLITE_FULL``, is part of no event.
    """
    frames = traceback.extract_tb(error.__traceback__)
    kind = type(error).__name__
    if isinstance(error, sqlite3.Error) and hasattr(error, "sqlite_errorname"):
        kind = f"{kind} ({error.sqlite_errorname})"
    return f"{kind} in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else kind
