"""
The life of an activity, as a table.

One that goes through as it should is ``new``, then ``asked`` (Core may have a row), ``allowed``, ``running``
and ``closed``. It is ``waiting`` while its run is suspended for a person, and ``ahead`` when it was judged
before its turn. One that is closed may begin ``anew``, with other input and another row.

Closing is one of the moves, made without awaiting: so it happens once, however many ways out are taken at
the same time. The work begins from one state only, in which it was let through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

State = Literal["new", "asked", "waiting", "allowed", "ahead", "running", "closed"]
Step = Literal["ask", "wait", "allow", "keep", "take", "begin", "anew", "close"]

MOVES: Final[Mapping[State, Mapping[Step, State]]] = {
    "new": {"ask": "asked", "allow": "allowed", "close": "closed"},
    "asked": {"wait": "waiting", "allow": "allowed", "close": "closed"},
    "waiting": {"wait": "waiting", "allow": "allowed", "close": "closed"},
    "allowed": {"keep": "ahead", "begin": "running", "close": "closed"},
    "ahead": {"take": "allowed", "close": "closed"},
    "running": {"close": "closed"},
    "closed": {"anew": "new"},
}
"""The life of an activity. ``allow`` without ``ask`` is for a gate that is switched off."""
