"""A governed activity costs the same at the end of a long run as at its beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.agents import Shape
from benchmarks.cores import InstantCore
from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt.local_core import LocalCore

Count = Callable[[Callable[[], object]], Any]


MOST_STEPS = 5_500
"""
Instructions of one activity with a local Core, and some more. There is no room for a second reading of an
answer, a second copy of a payload, or a lookup in a database.
"""


def work_of_run(calls: int, work_of: Count, core: Any = None) -> int:
    async def governed() -> None:
        governance = await create_openbox_agentrt(
            core=InstantCore() if core is None else core,
            install_instrumentation=False,
            validate=False,
            environ={},
        )
        async with governance:
            await Shape(name="", calls=calls).run(governance.govern_loop)

    steps: int = work_of(lambda: asyncio.run(governed())).steps
    return steps


def test_a_governed_activity_costs_the_same_throughout_a_run(work_of: Count) -> None:
    """Ten calls more cost as much after forty as after ten."""
    work_of_run(1, work_of)
    at_ten, at_twenty, at_forty, at_fifty = (work_of_run(calls, work_of) for calls in (10, 20, 40, 50))
    early, late = at_twenty - at_ten, at_fifty - at_forty

    assert early > 1000, "counted nothing: this test would pass without checking anything"
    assert late < 1.1 * early


def test_an_activity_with_a_local_core_is_a_few_thousand_instructions(work_of: Count) -> None:
    """Asking, answering and reporting; what the libraries underneath do is not counted."""
    with LocalCore() as core:
        work_of_run(1, work_of, core)
        ten, twenty = (work_of_run(calls, work_of, core) for calls in (10, 20))
    steps = (twenty - ten) / 20  # ten tool calls and ten model calls

    assert 0.6 * MOST_STEPS < steps < MOST_STEPS
