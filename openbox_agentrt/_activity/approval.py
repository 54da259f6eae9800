"""
A person who decides: asked because of an answer, waited for, or left to decide while the run is suspended.

What they said is among the facts of the decision. What they approved is remembered, so that they are not
asked about the same input twice.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from .._core.approvals import ApprovalKey
from ..decision import ApprovalRequest, Verdict
from ..errors import (
    ApprovalExpiredError,
    ApprovalRejectedError,
    ApprovalTimeoutError,
    GovernanceError,
    GovernanceHaltError,
)
from .activity import ApprovalPending
from .judged_input import ApprovedInput

if TYPE_CHECKING:
    from .._core.approvals import PollAnswer
    from ..decision import Answer, ApprovalOutcome
    from .activity import Activity


async def ask_person(activity: Activity, answer: Answer, *, again: bool = False) -> None:
    """
    Wait for the person whom `answer` or the request requires, or have the run pause for them.

    Args:
        activity: The activity.
        answer: Core's answer to it.
        again: Whether the person was asked before, and the run goes on after that.

    Raises:
        GovernanceError: They said no, took too long, or the run was halted meanwhile.
        ApprovalPending: They have not decided yet, and the run can pause.
    """
    asked = answer if answer.verdict is Verdict.REQUIRE_APPROVAL else activity.request.owed
    if asked is None:
        return
    if activity.is_approved():
        # What the person has seen is in it unchanged: they are not asked a second time.
        activity.facts["approval"] = "approved"
        return
    if activity.request.activity_id is None:
        # A signal has no row that an approval could be polled by: the pre-screen waits for it.
        _require_prescreen(activity)
        return
    began = perf_counter()
    try:
        said = await _wait(activity, asked, again=again)
    except (ApprovalRejectedError, ApprovalExpiredError, ApprovalTimeoutError, GovernanceHaltError) as error:
        activity.facts["approval_seconds"] = perf_counter() - began
        _note_refusal(activity, error)
        raise
    activity.facts["approval"] = "approved"
    activity.facts["approval_seconds"] = perf_counter() - began
    activity.facts["decided_by"] = said.decided_by
    # Core may repeat why it asked, which is not what the person said.
    activity.facts["approval_note"] = None if said.reason == asked.reason else said.reason
    activity.approved = ApprovedInput(activity.content)


async def _wait(activity: Activity, asked: Answer, *, again: bool) -> PollAnswer:
    run, event = activity.run, activity.request.event
    core = run.services.core
    ids = {"workflow_id": run.workflow_id, "run_id": run.run_id, "activity_id": activity.id}
    key = ApprovalKey.of(asked, **ids, event=event)
    if not again:
        run.services.observers.tell_waiting(
            ApprovalRequest(
                event=event,
                agent=run.agent_name,
                session_id=run.session_id,
                approval_id=asked.approval_id,
                reason=asked.reason,
                policy_id=asked.policy_id,
                expires_at=asked.approval_expires_at,
                **ids,
            )
        )
    if not (activity.request.pausable and run.services.options.approval_mode == "pause"):
        return await core.approve(key, cancelled=lambda: run.refusal(event))
    said = await core.approvals.asked_once(key) if again else None
    if said is None:
        activity.move("wait")
        raise ApprovalPending(f"{event!r} waits for an approval")
    return said


def _note_refusal(
    activity: Activity,
    error: ApprovalRejectedError | ApprovalExpiredError | ApprovalTimeoutError | GovernanceHaltError,
) -> None:
    if isinstance(error, GovernanceHaltError):
        # Heard of while the person was waited for: what Core answers to the report of it says no more.
        activity.refused(error, Verdict.HALT, "halted", reason=error.reason)
        activity.run.halt(error, took_effect=True)
        return
    activity.facts["approval"] = _outcome(error)
    if error.decided_by is not None:
        activity.facts["decided_by"] = error.decided_by
    activity.refused(error, Verdict.BLOCK, reason=error.reason)


def _outcome(error: GovernanceError) -> ApprovalOutcome:
    if isinstance(error, ApprovalExpiredError):
        return "expired"
    return "timeout" if isinstance(error, ApprovalTimeoutError) else "rejected"


def _require_prescreen(activity: Activity) -> None:
    if activity.run.services.options.send_llm_start_event:
        return
    error = ApprovalRejectedError(
        "nobody can be asked about a prompt without the gate of model calls",
        event=activity.request.event,
        remedy="leave option 'send_llm_start_event' on",
    )
    raise activity.refused(error, Verdict.BLOCK, reason=error.reason)
