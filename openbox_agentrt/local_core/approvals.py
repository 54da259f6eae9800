"""Work that waits for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, assert_never

from .._plain.times import rfc3339
from ..evidence.redaction.redacted_records import redact_record
from ..evidence.redaction.redactor import Redactor

State = Literal["pending", "approved", "rejected", "expired"]

HALTED: Final = "the run was halted: "
"""What the note of an approval that a halt has ended begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """
    A piece of work that a person has to allow, and what became of it.

    Attributes:
        id: The id that the agent was given.
        activity_id: The activity that waits; for a prompt, that of its pre-screen.
        reason: Why the policy asks.
        event: The event that asked.
        created_at: When it asked, in seconds since 1970.
        expires_at: From when on a "yes" comes too late; ``None`` never.
        state: What was decided.
        note: What the person said.
        decided_by: Who decided, as they said.
        decided_at: When, in seconds since 1970.
    """

    id: str
    workflow_id: str
    run_id: str
    activity_id: str
    activity_type: str
    reason: str
    event: Mapping[str, Any]
    created_at: float
    expires_at: float | None
    state: State
    note: str = ""
    decided_by: str = ""
    decided_at: float | None = None

    @property
    def about_operation(self) -> bool:
        """Tell whether it is about an operation inside an activity, rather than about the activity."""
        return bool(self.event.get("hook_trigger"))

    def as_of(self, now: float) -> State:
        """Give the state at `now`: without a decision in time it has expired."""
        if self.state == "pending" and self.expires_at is not None and now >= self.expires_at:
            return "expired"
        return self.state

    def message(self, redactor: Redactor) -> dict[str, Any]:
        """
        Tell of it in a message, without anything of what is to be approved.

        Args:
            redactor: Puts marks in the place of secrets that a policy quotes in its reason.
        """
        agent = self.event.get("agent_name") or self.event.get("workflow_type")
        why = f": {self.reason}" if self.reason else ""
        told = {
            "type": "approval.requested",
            "text": f"{agent} waits for a person, {self.activity_type}{why}",
            "event": self.activity_type,
            "agent": agent,
            "session_id": self.event.get("session_id"),
            "workflow_id": self.workflow_id,
            "run_id": self.run_id,
            "activity_id": self.activity_id,
            "approval_id": self.id,
            "reason": self.reason,
            "expires_at": None if self.expires_at is None else rfc3339(self.expires_at),
        }
        known = {name: value for name, value in told.items() if value is not None}
        return dict(redact_record(known, redactor))

    def poll_answer(self, now: float) -> dict[str, Any]:
        """Answer an agent that asks about this approval."""
        answer: dict[str, Any] = {"approval_id": self.id, **_verdict(self.as_of(now))}
        reason = self.note or self.reason
        if reason:
            answer["reason"] = reason
        if self.state == "expired" and self.note.startswith(HALTED):
            answer["halted"] = self.note.removeprefix(HALTED)
        if self.decided_by:
            answer["decided_by"] = self.decided_by
        if self.decided_at is not None:
            answer["decided_at"] = rfc3339(self.decided_at)
        if self.expires_at is not None:
            answer["approval_expiration_time"] = rfc3339(self.expires_at)
        return answer


class UndecidableApprovalError(LookupError):
    """An approval cannot be decided: there is none, there are several, or it is decided already."""


def _verdict(state: State) -> dict[str, Any]:
    match state:
        case "pending":
            return {"verdict": "require_approval", "action": "require-approval"}
        case "approved":
            return {"verdict": "allow", "action": "allow"}
        case "rejected":
            return {"verdict": "block", "action": "block"}
        case "expired":
            return {"verdict": "halt", "action": "halt", "expired": True}
    assert_never(state)
