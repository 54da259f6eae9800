"""
Say why a call was refused, in a form that a model, a client or a log may see.

A refusal holds no argument, no trace and no state.
"""

from __future__ import annotations

from typing import Any

from .._values import dataclass
from .verdict import Kind, OnViolation, Severity

MAX_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """
    One contract that a call would break, or what else stands against it.

    Attributes:
        contract: The contract as written. For a condition, its description. For a reason of the session
            itself, which is no contract, what would have to hold.
        label: How outsiders are told about it, if not as `contract`.
        id: Its own id, if it has one.
        kind: See `Violation.kind`.
        blame: Step of the earlier call to blame, if there is one.
        needs: What would make the call possible, e.g. ``validate_record``.
        retry_after: Seconds after which the same call would be possible, if time is all it takes.
        remaining: What is left of a budget, e.g. ``120.00 left of 500``.
        severity: As the contract says.
        remedy: The contract's own advice.
        on_violation: "refuse", or "halt" for a contract that stops the session.
        fault: What could not be evaluated, if that is why. Never an argument's value.
        reason: A code for a reason of the session itself, such as ``session_busy``.
        says: That reason as a sentence.
        of_store: Whether that is about the store that keeps the session, and not about what was done in it.
    """

    contract: str
    label: str | None = None
    id: str | None = None
    kind: Kind = "temporal"
    blame: int | None = None
    needs: str | None = None
    retry_after: float | None = None
    remaining: str | None = None
    severity: Severity = "medium"
    remedy: str | None = None
    on_violation: OnViolation = "refuse"
    fault: str | None = None
    reason: str | None = None
    says: str | None = None
    of_store: bool = False

    @property
    def name(self) -> str:
        """Name the contract for outsiders."""
        return self.label or self.contract

    def describe(self) -> str:
        """Tell in a few words which contract it is, or what is the case, and what would help."""
        if self.says is not None:
            return self.says + (f", retry after {self.retry_after:.1f} s" if self.retry_after else "")
        parts = []
        if self.fault is not None:
            parts.append(self.fault)
        if self.needs is not None:
            parts.append(f"needs {self.needs}")
        if self.remaining is not None:
            parts.append(self.remaining)
        if self.retry_after is not None:
            parts.append(f"retry after {self.retry_after:.1f} s")
        return f"{self.name}: {', '.join(parts)}" if parts else self.name

    def for_model(self) -> dict[str, Any]:
        """Give what is known as JSON-safe data, without the empty fields."""
        told = {
            "contract": self.name,
            "reason": self.reason,
            "id": self.id,
            "needs": self.needs,
            "retry_after": None if self.retry_after is None else round(self.retry_after, 3),
            "remaining": self.remaining,
            "remedy": self.remedy,
        }
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """
    A call that was refused. It did not run, and nothing moved.

    Attributes:
        tool: The tool that was called.
        step: Position of the call in the session, counting from 1.
        broken: Every contract in force that the call would break, and what else stands against it.
    """

    tool: str
    step: int
    broken: tuple[Broken, ...]

    @property
    def message(self) -> str:
        """Tell the refusal in one line."""
        name = self.tool if len(self.tool) <= MAX_NAME else f"{self.tool[:MAX_NAME]}..."
        said = "; ".join(broken.describe() for broken in self.broken if broken.says is not None)
        breaks = "; ".join(broken.describe() for broken in self.broken if broken.says is None)
        why = (f": {said}" if said else "") + (f", it would break {breaks}" if breaks else "")
        return f"call to {name!r} refused at step {self.step}{why}"

    @property
    def contracts(self) -> tuple[str, ...]:
        """Name what the call would break; nothing where only the store of the session stands against it."""
        return tuple(broken.name for broken in self.broken if not broken.of_store)

    def for_model(self) -> dict[str, Any]:
        """Give the refusal for the model or a client: JSON-safe, with no argument, trace or state."""
        return {
            "refused": True,
            "tool": self.tool[:MAX_NAME],
            "step": self.step,
            "message": self.message,
            "broken": [broken.for_model() for broken in self.broken],
        }
