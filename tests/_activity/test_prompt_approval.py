"""A prompt that needs an approval: waited for on the row of the pre-screen, since a signal has none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openbox_agentrt import ApprovalRejectedError


def prompts(*event_types: str) -> Any:
    return lambda event: "REQUIRE_APPROVAL" if event["event_type"] in event_types else None


async def test_it_is_waited_for_on_the_prescreen(make_stage: Any) -> None:
    """After Core has that row, and under its id; the block runs when a person has said yes."""
    decisions: list[Any] = []
    stage = await make_stage(
        prompts("SignalReceived"), approval_poll_interval_ms=5, on_decision=decisions.append
    )

    async def run() -> str:
        async with stage.governance.run_scope("refund everybody") as run:
            return str(run.identity.prescreen_id)

    running = asyncio.create_task(run())
    approval = await stage.core.await_approval()
    while not stage.events("ActivityStarted"):  # noqa: ASYNC110 - the row comes after the signal
        await asyncio.sleep(0.005)
    stage.core.approve(approval)

    assert approval.activity_id == await running
    assert [(each.event, each.verdict.value, each.approval) for each in decisions] == [
        ("user_prompt", "require_approval", None),
        ("llm_call", "allow", "approved"),
    ]


async def test_a_no_stops_the_run(make_stage: Any) -> None:
    """Nothing of it runs; both rows are closed."""
    stage = await make_stage(prompts("SignalReceived"), approval_poll_interval_ms=5)

    async def run() -> None:
        async with stage.governance.run_scope("refund everybody"):
            pytest.fail("it ran")

    running = asyncio.create_task(run())
    stage.core.reject(await stage.core.await_approval(), "no")

    with pytest.raises(ApprovalRejectedError, match="no"):
        await running
    assert stage.story()[-1] == "WorkflowFailed"


async def test_without_a_prescreen_nobody_can_be_asked(make_stage: Any) -> None:
    """The gate of model calls is switched off, and with it the row that could be polled."""
    stage = await make_stage(prompts("SignalReceived"), send_llm_start_event=False)

    with pytest.raises(ApprovalRejectedError) as caught:
        async with stage.governance.run_scope("refund everybody"):
            pytest.fail("it ran")

    assert caught.value.remedy == "leave option 'send_llm_start_event' on"
