"""What an attack counts outside of the store: what was really paid, and to whom."""

from __future__ import annotations

import os
from pathlib import Path

KEYS = 4
"""How many customers there are."""


def pay(paid: Path, key: str) -> None:
    """Do what cannot be undone: one line, written at once."""
    descriptor = os.open(paid, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, f"{key}\n".encode())
    os.close(descriptor)
