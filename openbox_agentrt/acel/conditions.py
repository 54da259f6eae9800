"""acel-core's module name. The code is in `openbox_agentrt.acel.contracts.conditions`."""

from .callbacks import discard, fault_text, is_async
from .contracts.conditions import (
    NEEDS_ASYNC,
    NO,
    YES,
    Check,
    CheckAnswer,
    Postcondition,
    Precondition,
    _arity,
    as_checks,
    collect_checks,
    describe,
    postcondition,
    precondition,
)

__all__ = (
    "NEEDS_ASYNC",
    "NO",
    "YES",
    "Check",
    "CheckAnswer",
    "Postcondition",
    "Precondition",
    "_arity",
    "as_checks",
    "collect_checks",
    "describe",
    "discard",
    "fault_text",
    "is_async",
    "postcondition",
    "precondition",
)
