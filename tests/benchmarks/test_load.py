"""The load test, small: `python -m benchmarks load` is the same with a thousand runs at once."""

from __future__ import annotations

import asyncio

from benchmarks.load import TOOLS_PER_RUN, load


def test_a_slow_core_that_fails_loses_nothing() -> None:
    """Over a real wire, in another process: every row is closed, and nothing is kept of runs that ended."""
    outcome = asyncio.run(load(at_once=10, rounds=4, latency=0.005, faults=0.05))

    assert outcome.runs == 40
    assert outcome.faults > 0
    assert outcome.problems == []
    assert outcome.calls == outcome.runs * TOOLS_PER_RUN
    assert outcome.is_clean
    # The first round fills caches, and connections that are open right now are some hundred objects. A run
    # that is kept holds hundreds, too: with ten of them in a round, thousands.
    assert min(outcome.objects[2:]) - outcome.objects[1] < 1_000
