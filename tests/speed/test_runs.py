"""A governed activity costs the same at the end of a long run as at its beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.agents import Shape
from benchmarks.cores import InstantCore
from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt.local_core import LocalCore

Count = Callable[..., Any]


MOST_STEPS = 5_350
"""
Instructions of one activity with a local Core, and some more. There is no room for a second reading of an
answer, a second copy of a payload, or a lookup in a database.
"""

MOST_ADDED = 3_800
"""
Instructions that governance adds to an activity of the bare loop, and some more, whatever library they are
of. There is no room for a look into the environment with each call.
"""


def work_of_run(calls: int, work_of: Count, core: Any = None) -> int:
    steps: int = work_of(lambda: asyncio.run(governed_run(calls, core))).steps
    return steps


async def governed_run(calls: int, core: Any = None) -> None:
    governance = await create_openbox_agentrt(
        core=InstantCore() if core is None else core,
        install_instrumentation=False,
        validate=False,
        environ={},
    )
    async with governance:
        await Shape(name="", calls=calls).run(governance.govern_loop)


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


def test_governance_adds_a_few_thousand_instructions_to_an_activity(work_of: Count) -> None:
    """Those of openbox_core and the standard library are counted as well."""

    def added(calls: int) -> int:
        bare = work_of(lambda: asyncio.run(Shape(name="", calls=calls).run()), everywhere=True)
        governed = work_of(lambda: asyncio.run(governed_run(calls)), everywhere=True)
        steps: int = governed.steps - bare.steps
        return steps

    added(1)
    steps = (added(20) - added(10)) / 20

    assert 0.6 * MOST_ADDED < steps < MOST_ADDED
