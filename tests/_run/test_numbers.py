"""The numbers that operators watch, and the dashboard that shows them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from openbox_agentrt import GovernanceError, GovernanceHaltError
from openbox_agentrt.acel import Metrics, at_most_n_times

DASHBOARD = Path(__file__).parents[2] / "docs" / "dashboards" / "openbox-agentrt.json"


def samples(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """The numbers by name and labels, as Prometheus reads them."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(metrics.render_prometheus()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def policy(event: Any) -> Any:
    said = {"drop": "BLOCK", "ask": "REQUIRE_APPROVAL"}
    return said.get(event.get("activity_type", "")) if event["event_type"] == "ActivityStarted" else None


def full(file: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def attempt(stage: Any, tool: str) -> None:
    try:
        async with stage.governance.activity(tool, [1]):
            pass
    except GovernanceError:
        pass  # what is counted


async def test_refusals_are_counted_by_tool_and_by_whom(make_stage: Any) -> None:
    """Contracts by name, Core, and people; and how long each was asked."""
    metrics = Metrics()
    stage = await make_stage(
        policy, metrics=metrics, contracts=[at_most_n_times("pay", 0)], approval_poll_interval_ms=10
    )
    async with stage.governance.run_scope():
        for tool in ("pay", "pay", "drop", "look"):
            await attempt(stage, tool)
        asking = asyncio.create_task(attempt(stage, "ask"))
        stage.core.reject(await stage.core.await_approval())
        await asking

    numbers = samples(metrics)
    assert numbers["openbox_agentrt_refusals_total"] == {
        ("contracts", "at_most_n_times(pay, n=0)", "pay"): 2,
        ("core", "", "drop"): 1,
        ("person", "", "ask"): 1,
    }
    asked = numbers["openbox_agentrt_decision_seconds_count"]
    assert asked[("contracts",)] == 5
    assert asked[("core",)] == 3
    assert asked[("person",)] == 1


async def test_a_halt_is_no_refused_call_itself(make_stage: Any) -> None:
    """What it stops is; the halt is counted among the decisions."""
    metrics = Metrics()
    stage = await make_stage(metrics=metrics)
    with suppress(GovernanceHaltError):
        async with stage.governance.run_scope(session_id="s-1"):
            stage.governance.halt(session_id="s-1", reason="enough")
            await attempt(stage, "pay")

    numbers = samples(metrics)
    assert numbers["openbox_agentrt_refusals_total"] == {("halted", "", "pay"): 1}
    assert numbers["openbox_agentrt_decisions_total"][("halted", "halt")] == 2


async def test_a_run_of_no_session_has_one_of_its_own(make_stage: Any) -> None:
    """It is open as long as the run, and one that is nested has none."""
    metrics = Metrics()
    stage = await make_stage(metrics=metrics)
    async with stage.governance.run_scope(), stage.governance.run_scope():
        assert samples(metrics)["openbox_agentrt_open_sessions"] == {(): 1}
    assert samples(metrics)["openbox_agentrt_open_sessions"] == {(): 0}


async def test_what_is_open_is_read_when_it_is_asked_for(make_stage: Any) -> None:
    """Calls that wait for a person, and sessions; of a governance that is closed, nothing."""
    metrics = Metrics()
    stage = await make_stage(policy, metrics=metrics, session_id="one", approval_poll_interval_ms=10)
    other = await make_stage(metrics=metrics)
    async with stage.governance.run_scope():
        asking = asyncio.create_task(attempt(stage, "ask"))
        row = await stage.core.await_approval()
        async with asyncio.timeout(20):
            # Core knows of it a moment before the answer is read here.
            while (numbers := samples(metrics))["openbox_agentrt_pending_approvals"] != {(): 1}:  # noqa: ASYNC110 - it changes by itself
                await asyncio.sleep(0)
        stage.core.approve(row)
        await asking

    assert numbers["openbox_agentrt_open_sessions"] == {(): 1}
    assert samples(metrics)["openbox_agentrt_pending_approvals"] == {(): 0}
    await stage.governance.aclose()
    await other.governance.aclose()
    assert samples(metrics)["openbox_agentrt_open_sessions"] == {(): 0}


async def test_evidence_that_could_not_be_recorded_is_a_number(make_stage: Any, tmp_path: Path) -> None:
    """A disk that is full stops no call, so whoever watches has to see it."""
    metrics = Metrics()
    stage = await make_stage(metrics=metrics, evidence=tmp_path / "evidence.jsonl", record="all")
    assert samples(metrics)["openbox_agentrt_evidence_failures"] == {(): 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        async with stage.governance.run_scope():
            await attempt(stage, "pay")

    assert samples(metrics)["openbox_agentrt_evidence_failures"][()] > 0


async def test_the_dashboard_shows_numbers_that_there_are(make_stage: Any) -> None:
    """Each of its questions is about one of them, with its labels."""
    metrics = Metrics()
    await make_stage(metrics=metrics)
    metrics.record_refusal("pay", "core")
    metrics.record_seconds("core", 0.1)
    metrics.record_decision("allow", "core")
    metrics.record_unreachable("fail_open")
    metrics.record_fleet_outage("local")
    metrics.record_violation("temporal", "never(pay)")
    labels = {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(metrics.render_prometheus())
        for sample in family.samples
    }

    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    shown = {name for text in asked for name in re.findall(r"\b(?:openbox_agentrt|acel)_\w+", text)}

    assert len(panels) == len({panel["id"] for panel in panels}) == 13
    assert shown <= labels.keys()
    own = {name for name in labels if name.startswith("openbox_agentrt_") and name.endswith("_total")}
    assert own <= shown
    for text in asked:
        grouped = {name for group in re.findall(r"by \(([\w, ]+)\)", text) for name in group.split(", ")}
        (name, *_) = re.findall(r"\b(?:openbox_agentrt|acel)_\w+", text)
        assert grouped <= labels[name]
