"""
The steps of the protocol as Lua scripts, each put together from the pieces that it needs.

The rules are data in what is sent, so the scripts are the same for every set of contracts.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ("STEPS", "script")

STEPS = {
    "beat": ("core", "beat"),
    "reserve": ("core", "cells", "guards", "moves", "reserve"),
    "start": ("core", "start"),
    "finish": ("core", "cells", "moves", "finish"),
    "park": ("core", "park"),
    "adopt": ("core", "adopt"),
    "mend": ("core", "mend"),
    "hold": ("core", "hold"),
    "keep": ("core", "keep"),
}


@cache
def script(step: str) -> str:
    """Give the script of a step."""
    folder = files(__name__)
    return "\n".join((folder / f"{piece}.lua").read_text(encoding="utf-8") for piece in STEPS[step])
