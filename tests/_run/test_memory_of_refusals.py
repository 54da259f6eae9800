"""What a governed run keeps of calls that are refused."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from openbox_agentrt import GovernanceError
from openbox_agentrt.acel import at_most_n_times


async def refuse(stage: Any, times: int) -> None:
    for number in range(times):
        with pytest.raises(GovernanceError):
            async with stage.governance.activity("x", {"i": number, "text": "a" * 2_000}):
                raise AssertionError("it ran")
        await asyncio.sleep(0)


async def test_a_run_that_asks_again_and_again_fills_no_memory(make_stage: Any) -> None:
    """Decisions, violations, evidence in memory and the trace are bounded, however large the arguments."""
    stage = await make_stage(contracts=[at_most_n_times("x", 0)])
    tracemalloc.start()
    try:
        async with stage.governance.run_scope() as run:
            await refuse(stage, 600)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await refuse(stage, 300)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert len(run.decisions) == 500
    # What Core in this process keeps of the signals is the test's own: about 2 KB each.
    assert grown < 300 * 2_000
