"""Show people what they decide about: all of it, or its beginning and end and how to see the rest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .._plain.times import rfc3339
from ..console.words import age
from ..local_core import Approval

_WHOLE = 1_000
_PART = 300


def described(approval: Approval, now: float, *, where: str = "") -> str:
    """
    Describe an approval in a few lines.

    Everything that comes from an event is written as JSON in ASCII, so that nothing in it can move the cursor
    or hide what is to be approved.

    Args:
        approval: The approval.
        now: The time.
        where: The options that commands about it need, with a blank before them.
    """
    event = approval.event
    who = f"agent {json.dumps(event.get('agent_name') or event.get('workflow_type'))}"
    if event.get("session_id"):
        who += f", session {json.dumps(event['session_id'])}"
    lines = [
        f"{approval.id}  {json.dumps(approval.activity_type)} by {who}",
        f"  {_times(approval, now)}",
        f"  because {json.dumps(approval.reason)}",
        *(f"  {line}" for line in _shown(approval, where)),
    ]
    return "\n".join(lines)


def as_data(approval: Approval, now: float) -> dict[str, Any]:
    """Give an approval as data, with all of its input."""
    event = approval.event
    return {
        "id": approval.id,
        "state": approval.as_of(now),
        "agent": event.get("agent_name") or event.get("workflow_type"),
        "session": event.get("session_id"),
        "workflow_id": approval.workflow_id,
        "run_id": approval.run_id,
        "activity_id": approval.activity_id,
        "activity_type": approval.activity_type,
        "reason": approval.reason,
        "input": _input(approval),
        "created_at": rfc3339(approval.created_at),
        "expires_at": None if approval.expires_at is None else rfc3339(approval.expires_at),
        "note": approval.note,
        "decided_by": approval.decided_by,
        "decided_at": None if approval.decided_at is None else rfc3339(approval.decided_at),
    }


def _input(approval: Approval) -> Any:
    event = approval.event
    if event.get("hook_trigger"):
        return event.get("spans")
    return event.get("activity_input", event.get("signal_args"))


def _shown(approval: Approval, where: str) -> list[str]:
    text = json.dumps(_input(approval))
    if len(text) <= _WHOLE:
        return [text]
    digest = hashlib.sha256(text.encode()).hexdigest()
    return [
        text[:_PART],
        f"... {len(text) - 2 * _PART:,} characters are not shown ...",
        text[-_PART:],
        f"{len(text):,} characters, sha256 {digest}",
        f"all of it: openbox-agentrt core show {approval.id}{where}",
    ]


def _times(approval: Approval, now: float) -> str:
    state = approval.as_of(now)
    asked = f"asked {age(now - approval.created_at)} ago"
    if state != "pending":
        by = f" by {json.dumps(approval.decided_by)}" if approval.decided_by else ""
        return f"{asked}, {state}{by}"
    if approval.expires_at is None:
        return f"{asked}, does not expire"
    return f"{asked}, expires in {age(approval.expires_at - now)}"
