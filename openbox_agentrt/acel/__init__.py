"""Contracts over the tool calls of a session."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._version import __version__

if TYPE_CHECKING:
    from .conditions import Check, postcondition, precondition
    from .events import ToolCallEvent, TraceError
    from .refusal import Broken, Refusal
    from .reservation import Reservation, ReservationError
    from .session import Session, ToolSpec
    from .state import StateStore, StateView
    from .verdict import Verdict
    from .violations import ContractViolation, Violation

__all__ = (
    "Broken",
    "Check",
    "ContractViolation",
    "Refusal",
    "Reservation",
    "ReservationError",
    "Session",
    "StateStore",
    "StateView",
    "ToolCallEvent",
    "ToolSpec",
    "TraceError",
    "Verdict",
    "Violation",
    "__version__",
    "postcondition",
    "precondition",
)

_HOME = {
    "Broken": "refusal",
    "Check": "conditions",
    "ContractViolation": "violations",
    "Refusal": "refusal",
    "Reservation": "reservation",
    "ReservationError": "reservation",
    "Session": "session",
    "StateStore": "state",
    "StateView": "state",
    "ToolCallEvent": "events",
    "ToolSpec": "session",
    "TraceError": "events",
    "Verdict": "verdict",
    "Violation": "violations",
    "postcondition": "conditions",
    "precondition": "conditions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
