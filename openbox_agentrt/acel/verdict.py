"""What a contract says about the events seen so far."""

from __future__ import annotations

from enum import Enum


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
        """True if the contract is broken."""
        return self is Verdict.VIOLATED
