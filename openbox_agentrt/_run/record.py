"""
The one place that makes a `Decision`, and tells everybody who wants to know.

It stands with the run and not with the activity, because decisions are also made about what is no activity:
the start and the end of a run, nested I/O, and what Core says to a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

from ..decision import Decision, Verdict
from ..evidence.redaction.markers import keyed_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openbox_core.contracts.results import PatchDirective

    from .._wire.identity import RunIdentity
    from ..decision import AcelOutcome, Answer, ApprovalOutcome, DecisionSource, FleetOutcome, WorkOutcome
    from ..errors import GovernanceError
    from .state import RunState


class Facts(TypedDict, total=False):
    """Hold what may be known of a decision beside its event, verdict and source: see `Decision`."""

    activity_id: str | None
    arguments_digest: str | None
    step: int | None
    reason: str | None
    contracts: tuple[str, ...]
    acel: AcelOutcome | None
    fleet: FleetOutcome | None
    core_verdict: Verdict | None
    policy_id: str | None
    risk_score: float | None
    trust_tier: str | None
    constraints: tuple[str, ...]
    patch: PatchDirective | None
    approval_id: str | None
    approval: ApprovalOutcome | None
    approval_note: str | None
    decided_by: str | None
    redacted: bool
    unreachable: bool
    acel_seconds: float
    core_seconds: float
    approval_seconds: float


NO_FACTS: Final = Facts()


def facts_of(answer: Answer) -> Facts:
    """Give the facts that Core's answer brings."""
    return {
        "core_verdict": None if answer.unreachable or answer.local else answer.verdict,
        "reason": answer.reason,
        "policy_id": answer.policy_id,
        "risk_score": answer.risk_score,
        "trust_tier": answer.trust_tier,
        "constraints": answer.constraints,
        "patch": answer.patch,
        "approval_id": answer.approval_id,
        "unreachable": answer.unreachable,
    }


def draft(
    identity: RunIdentity,
    event: str,
    verdict: Verdict,
    source: DecisionSource,
    facts: Facts,
    subject: Mapping[str, Any] | None = None,
) -> Decision:
    """Make a decision that nobody is told of: as it stands so far, or of no run in particular."""
    return Decision(
        event=event,
        workflow_id=identity.workflow_id,
        run_id=identity.run_id,
        verdict=verdict,
        source=source,
        agent=identity.agent_name,
        subject=subject,
        **facts,
    )


def write(
    run: RunState, event: str, verdict: Verdict, source: DecisionSource, facts: Facts = NO_FACTS
) -> Decision:
    """Make a decision about something in `run`, keep it there, and tell everybody who wants to know."""
    decision = draft(run.identity, event, verdict, source, facts, run.about.subject)
    run.decisions.append(decision)
    run.services.observers.tell(decision, run.session.recorder, run.span)
    return decision


def refused(
    run: RunState,
    error: GovernanceError,
    event: str,
    verdict: Verdict,
    source: DecisionSource,
    facts: Facts,
) -> GovernanceError:
    """Write the decision that `error` is about, and give it to the error."""
    error.decision = write(run, event, verdict, source, facts)
    return error


def write_outcome(
    run: RunState,
    event: str,
    activity_id: str | None,
    outcome: WorkOutcome,
    *,
    began: bool,
    result: Any = None,
    error: str | None = None,
) -> None:
    """
    Put into the evidence what became of work in `run`.

    Args:
        began: Whether it had begun.
        result: What it gave, of which a digest is kept.
        error: Type of what it failed with.
    """
    fields = {
        "event": event,
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "activity_id": activity_id,
        "outcome": outcome,
        "began": began,
        "result_digest": None if result is None else keyed_digest(result, run.services.marker_key),
        "error": error,
    }
    run.services.observers.tell_outcome(fields, run.session.recorder)
