"""The load test, small: `python -m benchmarks load` is the same with a thousand runs at once."""

from __future__ import annotations

import asyncio

from benchmarks.load import TOOLS_PER_RUN, load


def test_a_slow_core_that_fails_loses_nothing() -> None:
    """Over a real wire, in another process: every row is closed, and nothing is kept of runs that ended."""
    outcome = asyncio.run(load(at_once=10, rounds=3, latency=0.005, faults=0.05))

    assert outcome.runs == 30
    assert outcome.faults > 0
    assert outcome.problems == []
    assert outcome.calls == outcome.runs * TOOLS_PER_RUN
    assert outcome.is_clean
    # The first round fills caches. A run that is kept holds hundreds of objects.
    assert outcome.objects[-1] - outcome.objects[1] < 500
