"""A HALT in Core's answer to a report: a decision like any other, which stops what would start next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import Decision, GovernanceHaltError
from openbox_agentrt.decision import Verdict


def halting(event_type: str, **about: Any) -> Any:
    """A policy that answers HALT to one kind of event."""

    def policy(event: Mapping[str, Any]) -> str | None:
        matches = all(event.get(name) == value for name, value in about.items())
        return "HALT" if event["event_type"] == event_type and matches else None

    return policy


async def test_the_run_ends_well_and_the_halt_is_known(make_stage: Any, tmp_path: Path) -> None:
    """It is in the decisions, in the evidence, and told to whoever observes; what ran has run."""
    seen: list[Decision] = []
    stage = await make_stage(
        halting("ActivityCompleted", activity_type="last"),
        on_decision=seen.append,
        evidence=tmp_path / "evidence.jsonl",
        record="all",
    )

    async with stage.governance.run_scope() as run:
        async with stage.governance.activity("last", [1]) as activity:
            activity.output = "done"
        run.result = "fine"

    halts = [decision for decision in run.decisions if decision.verdict is Verdict.HALT]
    assert [(halt.event, halt.source, halt.core_verdict) for halt in halts] == [
        ("last", "core", Verdict.HALT)
    ]
    assert halts[0].activity_id is not None
    assert run.halted is halts[0]
    assert [decision for decision in seen if decision.verdict is Verdict.HALT] == halts
    recorded = (tmp_path / "evidence.jsonl").read_text()
    assert sum('"halt"' in line for line in map(json.dumps, map(json.loads, recorded.splitlines()))) == 1
    assert [event["event_type"] for event in stage.core.events()][-1] == "WorkflowCompleted"


async def test_the_next_gate_is_stopped(make_stage: Any) -> None:
    """What would start after it does not, and is not put to Core."""
    stage = await make_stage(halting("ActivityCompleted", activity_type="first"))
    ran: list[str] = []

    async def two() -> None:
        async with stage.governance.run_scope():
            async with stage.governance.activity("first", [1]):
                ran.append("first")
            async with stage.governance.activity("second", [1]):
                ran.append("second")

    with pytest.raises(GovernanceHaltError) as caught:
        await two()

    assert ran == ["first"]
    assert caught.value.decision is not None
    assert caught.value.decision.source == "halted"
    assert "second" not in [event.get("activity_type") for event in stage.core.events()]


async def test_a_report_of_a_failure_counts_as_well(make_stage: Any) -> None:
    """Core may stop a run because a tool failed in it."""
    stage = await make_stage(halting("ActivityCompleted", status="failed"))

    async with stage.governance.run_scope() as run:
        with pytest.raises(ValueError, match="no"):
            async with stage.governance.activity("first", [1]):
                raise ValueError("no")

    assert run.halted is not None
    assert run.halted.event == "first"


@pytest.mark.parametrize("in_background", [False, True], ids=["inline", "ordered"])
async def test_it_is_noted_once(make_stage: Any, in_background: bool) -> None:
    """Core repeats a HALT at everything that comes after it; that is no further decision."""
    options = {"telemetry": "ordered"} if in_background else {}
    stage = await make_stage(
        lambda event: "HALT" if event["event_type"] == "ActivityCompleted" else None, **options
    )

    async def both() -> None:
        async with stage.governance.run_scope() as run:
            runs.append(run)
            async with stage.governance.activity("outer", [1]), stage.governance.activity("inner", [1]):
                pass

    runs: list[Any] = []
    await both()

    assert [decision.event for decision in runs[0].decisions if decision.verdict is Verdict.HALT] == ["inner"]


@pytest.mark.parametrize("in_background", [False, True], ids=["inline", "ordered"])
async def test_the_end_of_a_nested_run_stops_the_run_around_it(make_stage: Any, in_background: bool) -> None:
    """Core halts with its answer to the end of the inner run; the outer one starts nothing more."""
    options = {"telemetry": "ordered"} if in_background else {}
    stage = await make_stage(halting("WorkflowCompleted"), **options)
    ran: list[str] = []

    async def outer() -> None:
        async with stage.governance.run_scope() as run:
            runs.append(run)
            async with stage.governance.activity("hand over", [1]), stage.governance.run_scope():
                ran.append("inner")
            async with stage.governance.activity("next", [1]):
                ran.append("next")

    runs: list[Any] = []
    with pytest.raises(GovernanceHaltError):
        await outer()

    assert ran == ["inner"]
    assert runs[0].halted is not None
    assert (runs[0].halted.event, runs[0].halted.source) == ("run_ended", "core")
    assert "next" not in [event.get("activity_type") for event in stage.core.events()]
