"""The words in which a contract's answer is told: its verdict, and how much a violation weighs."""

from __future__ import annotations

from enum import Enum
from typing import Literal

Kind = Literal["temporal", "precondition", "postcondition", "session"]
Mode = Literal["enforce", "shadow"]
Severity = Literal["info", "low", "medium", "high", "critical"]
OnViolation = Literal["refuse", "halt"]


# Not a StrEnum: str() of a member has to stay "Verdict.VIOLATED", as acel-core prints it.
class Verdict(str, Enum):  # noqa: UP042 - see above
    """
    A three-valued answer over a finite prefix, as in LTL3.

    Attributes:
        SATISFIED: The contract holds, and no continuation can break it.
        VIOLATED: The contract is broken, and no continuation can repair it.
        UNKNOWN: Acceptable so far; what comes next decides.
    """

    SATISFIED = "satisfied"
    VIOLATED = "violated"
    UNKNOWN = "unknown"

    @property
    def is_violation(self) -> bool:
        """Tell whether the contract is broken."""
        return self is Verdict.VIOLATED
