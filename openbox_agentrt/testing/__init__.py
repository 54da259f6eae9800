"""
Doubles and fault injection for tests of governed agents.

`ScriptedProvider` is a model that says what a test wants, `ManualClock` is time that a test controls.
Nothing here is imported until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .clock import ManualClock
    from .script import Call, Reply, ScriptExhaustedError
    from .scripted_provider import CompleteOnlyProvider, ScriptedProvider

_HOME = {
    "Call": "script",
    "CompleteOnlyProvider": "scripted_provider",
    "ManualClock": "clock",
    "Reply": "script",
    "ScriptExhaustedError": "script",
    "ScriptedProvider": "scripted_provider",
}

__all__ = (
    "Call",
    "CompleteOnlyProvider",
    "ManualClock",
    "Reply",
    "ScriptExhaustedError",
    "ScriptedProvider",
)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
