"""Which halts an event falls under: those of its run, its session and its agent, and of runs around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._halt import HaltKind

Opening = tuple[str, Mapping[str, Any]]
"""The id of a run, and its first event."""


def subjects_of(run_id: str, event: Mapping[str, Any]) -> tuple[tuple[HaltKind, str], ...]:
    """List by what the sender of an event may have been halted."""
    agent = event.get("agent_name") or event.get("workflow_type")
    return (("run", run_id), ("session", str(event.get("session_id") or "")), ("agent", str(agent or "")))


def all_subjects_of(
    run_id: str, event: Mapping[str, Any], opening: Callable[[str], Opening | None]
) -> tuple[tuple[HaltKind, str], ...]:
    """
    List by what the sender of an event may have been halted, or a run around it.

    Args:
        opening: Finds how a workflow began.
    """
    subjects = subjects_of(run_id, event)
    # Only runs around others and in others have it, and the first event alone names the run around.
    if not event.get("multi_agent_session_id"):
        return subjects
    seen: set[str] = set()
    workflow = str(event.get("workflow_id") or "")
    while workflow and workflow not in seen and (began := opening(workflow)) is not None:
        seen.add(workflow)
        subjects += subjects_of(*began)
        workflow = str(began[1].get("parent_workflow_id") or "")
    return subjects
