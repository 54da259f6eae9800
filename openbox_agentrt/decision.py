"""
Record what Core answered and what was decided, as plain values that every other part passes around.

They are structs, because every gate makes them: a frozen dataclass with twenty fields takes fourteen times as
long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal

import msgspec
from openbox_core.contracts.results import EvaluationResult, PatchDirective, Verdict

__all__ = (
    "MISSING",
    "AcelOutcome",
    "Answer",
    "ApprovalOutcome",
    "ApprovalRequest",
    "Decision",
    "DecisionSource",
    "FleetOutcome",
    "Guardrails",
    "Missing",
    "Verdict",
    "WorkOutcome",
)

DecisionSource = Literal["halted", "contracts", "session", "core", "unreachable", "disabled", "skipped"]
AcelOutcome = Literal["allowed", "refused", "shadow", "unmet"]
FleetOutcome = Literal["shared", "local", "unavailable"]
WorkOutcome = Literal["ran", "failed", "withheld", "aborted"]
ApprovalOutcome = Literal["approved", "rejected", "expired", "timeout"]


class Missing(Enum):
    """Give `MISSING` a type of its own."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""No redaction was sent. ``None`` and ``""`` cannot say it: ``""`` redacts to nothing."""


class Guardrails(msgspec.Struct, frozen=True, kw_only=True):
    """
    Hold what Core's guardrails said.

    Attributes:
        validation_passed: Whether the guardrails passed. Anything unclear on the wire counts as not passed.
        reasons: Why not, as text.
        redacted_input: What has to be used instead of the input or output, in one of the shapes of the wire;
            `MISSING` when nothing was redacted (a JSON null says the same).
        input_type: ``activity_input``, ``activity_output`` or empty.
    """

    validation_passed: bool = True
    reasons: tuple[str, ...] = ()
    redacted_input: Any = MISSING
    input_type: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """
    Core's answer to one event, parsed strictly once.

    Attributes:
        verdict: The verdict that counts.
        reason: Core's explanation, or ours when `local`.
        risk_score: Core's risk, None when absent or not a finite number.
        constraints: Names of the constraints of a CONSTRAIN.
        patch: Replacement that Core proposes with a BLOCK.
        approval_expires_at: When a pending approval runs out; None when Core did not say.
        unreachable: Core could not be asked and the call passes ungoverned, under ``fail_open``.
        local: The verdict is not Core's: an outage, or an answer that was not understood.
        raw: The JSON that Core sent, when it was an object.
        made_up: The result that openbox_core made itself, where Core sent none.
    """

    verdict: Verdict
    reason: str | None = None
    policy_id: str | None = None
    governance_event_id: str | None = None
    risk_score: float | None = None
    trust_tier: str | None = None
    constraints: tuple[str, ...] = ()
    patch: PatchDirective | None = None
    approval_id: str | None = None
    approval_expires_at: datetime | None = None
    guardrails: Guardrails | None = None
    unreachable: bool = False
    local: bool = False
    raw: Mapping[str, Any] | None = None
    made_up: EvaluationResult | None = None

    @property
    def result(self) -> EvaluationResult | None:
        """The answer as openbox_core reads it; None when there was none, or it cannot be read that way."""
        if self.raw is None:
            return self.made_up
        try:
            return EvaluationResult.from_dict(dict(self.raw))
        except Exception:  # noqa: BLE001
            # Its parser fails on a verdict that is no text, and on what is nested deeply. The answer has been
            # read strictly already: this must not keep it from being enforced.
            return None

    @property
    def latches(self) -> bool:
        """Tell whether the run is halted from here on. A HALT that Core did not send stops one call only."""
        return self.verdict is Verdict.HALT and not self.local


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    Say that a call waits for a person. It holds nothing of what the call would do.

    Attributes:
        event: The tool, ``llm_call`` or the activity type.
        agent: Name of the agent, if it has one.
        approval_id: The id by which the approval is decided, when Core gave one.
        reason: Why Core asks.
        expires_at: From when on a "yes" comes too late; None when Core did not say.
    """

    event: str
    workflow_id: str
    run_id: str
    activity_id: str
    agent: str | None = None
    session_id: str | None = None
    approval_id: str | None = None
    reason: str | None = None
    policy_id: str | None = None
    expires_at: datetime | None = None

    @property
    def text(self) -> str:
        """Tell it in one line."""
        why = f": {self.reason}" if self.reason else ""
        until = "" if self.expires_at is None else f" (until {self.expires_at:%Y-%m-%d %H:%M:%S %Z})"
        return f"{self.agent or 'an agent'} waits for a person, {self.event}{why}{until}"

    def to_dict(self) -> dict[str, Any]:
        """Give every field that is set, and the text, JSON-safe: the body of a web hook."""
        fields = {name: getattr(self, name) for name in ApprovalRequest.__struct_fields__}
        if self.expires_at is not None:
            fields["expires_at"] = self.expires_at.isoformat()
        told = {name: value for name, value in fields.items() if value is not None}
        return {"type": "approval.requested", "text": self.text, **told}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """
    The record of one gate: what was judged, by whom, and what came out.

    Attributes:
        event: ``user_prompt``, ``llm_call``, a tool name or an activity type.
        activity_id: None for a signal.
        agent: Name of the agent, if it has one.
        subject: What the run is about, if that was said.
        arguments_digest: An HMAC of the arguments that were judged, redacted by Core where it did so, under
            the key of redaction markers. None where decisions are not kept as evidence.
        step: Position of the call in its contract session, if contracts judged it.
        verdict: The verdict in effect, both judges joined.
        source: Who decided: an earlier halt, the local contracts, Core, or nobody: because Core was
            ``unreachable``, the gate is ``disabled``, or the tool is ``skipped``.
        contracts: Contracts that the call broke or would break, as written in the rules.
        acel: What the local contracts said; ``shadow`` when a refusal was recorded but not enforced,
            ``unmet`` when a run ended with an obligation open.
        fleet: Where contracts of the fleet counted the call: in the ``shared`` store, or, since that did not
            answer, in this process only (``local``) or not at all (``unavailable``).
        core_verdict: What Core said, None when it was not asked or could not be.
        approval: How the approval ended, None when none was needed.
        approval_note: What the person said to it.
        decided_by: The person who decided, when Core said who.
        redacted: Whether Core replaced part of the input.
        unreachable: Whether Core could not be asked.
        acel_seconds: Time spent judging contracts.
        core_seconds: Time spent asking Core, retries included.
        approval_seconds: Time spent waiting for a person.
    """

    event: str
    workflow_id: str
    run_id: str
    verdict: Verdict
    source: DecisionSource
    activity_id: str | None = None
    agent: str | None = None
    subject: Mapping[str, Any] | None = None
    arguments_digest: str | None = None
    step: int | None = None
    reason: str | None = None
    contracts: tuple[str, ...] = ()
    acel: AcelOutcome | None = None
    fleet: FleetOutcome | None = None
    core_verdict: Verdict | None = None
    policy_id: str | None = None
    risk_score: float | None = None
    trust_tier: str | None = None
    constraints: tuple[str, ...] = ()
    patch: PatchDirective | None = None
    approval_id: str | None = None
    approval: ApprovalOutcome | None = None
    approval_note: str | None = None
    decided_by: str | None = None
    redacted: bool = False
    unreachable: bool = False
    acel_seconds: float = 0.0
    core_seconds: float = 0.0
    approval_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Give every field that is set, JSON-safe, under the attribute's name; verdicts in lower case."""
        return {
            name: _plain(value)
            for name in Decision.__struct_fields__
            if (value := getattr(self, name)) not in (None, (), {})
        }


def _plain(value: object) -> Any:
    match value:
        case Verdict():
            return value.value
        case PatchDirective():
            return {"new_input": _plain(value.new_input)}
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
        case _:
            return value
