"""
Doubles and fault injection for tests of governed agents.

`ScriptedProvider` is a model that says what a test wants, `ManualClock` is time that a test controls,
`assert_no_orphans` fails when something was begun and not ended.
Nothing here is imported until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .clock import ManualClock
    from .orphan_check import assert_no_orphans
    from .script import Call, Reply, ScriptExhaustedError
    from .scripted_provider import CompleteOnlyProvider, ScriptedProvider

_HOME = {
    "Call": "script",
    "CompleteOnlyProvider": "scripted_provider",
    "ManualClock": "clock",
    "Reply": "script",
    "ScriptExhaustedError": "script",
    "ScriptedProvider": "scripted_provider",
    "assert_no_orphans": "orphan_check",
}

__all__ = (
    "Call",
    "CompleteOnlyProvider",
    "ManualClock",
    "Reply",
    "ScriptExhaustedError",
    "ScriptedProvider",
    "assert_no_orphans",
)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
