"""Values in error messages."""

from __future__ import annotations

MAX_SHOWN = 80


def shown(value: object) -> str:
    """A value as it may be shown in a message: short, and whatever its own code does."""
    try:
        return repr(value)[:MAX_SHOWN]
    except Exception:  # noqa: BLE001 - the value's own code raised, or it is a number too long to print
        return f"a {type(value).__name__}"
