"""Check that every start has its end: of activities, and of workflows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .wire import TERMINAL_EVENTS

OrphanProblem = Literal[
    "never completed",
    "completed without a start",
    "completed twice",
    "started twice",
    "came after the end of its workflow",
]
WorkflowProblem = Literal["no terminal event", "two terminal events"]
Move = tuple[str, str, str, str, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """An activity whose start and end do not match, one to one."""

    workflow_id: str
    run_id: str
    activity_id: str
    activity_type: str
    problem: OrphanProblem

    def __str__(self) -> str:
        return f"{self.activity_type} {self.activity_id} of {self.workflow_id}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWorkflow:
    """A run that did not end exactly once."""

    workflow_id: str
    run_id: str
    problem: WorkflowProblem

    def __str__(self) -> str:
        return f"{self.workflow_id} {self.run_id}: {self.problem}"


def orphans(moves: Iterable[Move]) -> list[Orphan]:
    """
    List the activities whose events do not add up, in the order in which that showed.

    A retry, the same event sent again, counts once. The same ids with another content count twice.
    """
    started: dict[tuple[str, str, str], str] = {}
    completed: set[tuple[str, str, str]] = set()
    ended: set[tuple[str, str]] = set()
    found: list[Orphan] = []

    def note(activity: tuple[str, str, str], kind: str, problem: OrphanProblem) -> None:
        found.append(
            Orphan(
                workflow_id=activity[0],
                run_id=activity[1],
                activity_id=activity[2],
                activity_type=kind,
                problem=problem,
            )
        )

    for workflow_id, run_id, event_type, activity_id, activity_type, retry in moves:
        activity = (workflow_id, run_id, activity_id)
        if retry:
            continue
        if event_type in TERMINAL_EVENTS:
            ended.add((workflow_id, run_id))
        if event_type not in ("ActivityStarted", "ActivityCompleted"):
            continue
        if (workflow_id, run_id) in ended:
            note(activity, activity_type, "came after the end of its workflow")
        if event_type == "ActivityStarted":
            if activity in started:
                note(activity, activity_type, "started twice")
            started.setdefault(activity, activity_type)
        else:
            if activity not in started:
                note(activity, activity_type, "completed without a start")
            elif activity in completed:
                note(activity, activity_type, "completed twice")
            completed.add(activity)
    for activity, kind in started.items():
        if activity not in completed:
            note(activity, kind, "never completed")
    return found


def open_workflows(moves: Iterable[Move]) -> list[OpenWorkflow]:
    """List the runs without a terminal event, or with more than one, in the order in which they began."""
    ends: dict[tuple[str, str], int] = {}
    for workflow_id, run_id, event_type, _, _, retry in moves:
        if not workflow_id:
            continue
        ends.setdefault((workflow_id, run_id), 0)
        if event_type in TERMINAL_EVENTS and not retry:
            ends[workflow_id, run_id] += 1
    return [
        OpenWorkflow(
            workflow_id=workflow_id,
            run_id=run_id,
            problem="two terminal events" if count else "no terminal event",
        )
        for (workflow_id, run_id), count in ends.items()
        if count != 1
    ]
