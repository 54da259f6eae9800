"""
Measuring side by side: contenders take turns, in one process, so that whatever else the machine does meets
all of them.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns

OURS = "openbox_agentrt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How long something took, in nanoseconds."""

    median: float
    p95: float
    p99: float
    count: int


def spread(samples: Iterable[float]) -> Spread:
    """The spread of some samples; at least one."""
    ordered = sorted(samples)

    def at(share: float) -> float:
        return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])

    return Spread(median=statistics.median(ordered), p95=at(0.95), p99=at(0.99), count=len(ordered))


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    *,
    quick: bool,
    rounds: int = 15,
    slice_seconds: float = 0.02,
    most: int = 20_000,
) -> dict[str, Spread]:
    """
    Call every contender again and again, in turns.

    Args:
        quick: Give each contender two calls, to see that it works; what they take means nothing.
        rounds: Turns that each contender has.
        slice_seconds: How long a turn lasts; a call that takes longer is a turn of its own.
        most: Calls of one contender at most.
    """
    if quick:
        return {name: spread(_turn(call, slice_seconds, 2)) for name, call in contenders.items()}
    samples: dict[str, list[int]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    # What one contender leaves behind must not be collected in the turn of another.
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            for name, call in contenders.items():
                gc.collect()
                samples[name] += _turn(call, slice_seconds, max(1, most // rounds))
    finally:
        gc.unfreeze()
    return {name: spread(taken) for name, taken in samples.items()}


def _turn(call: Callable[[], object], seconds: float, most: int) -> list[int]:
    taken: list[int] = []
    ends = perf_counter_ns() + int(seconds * 1e9)
    while len(taken) < most:
        began = perf_counter_ns()
        call()
        now = perf_counter_ns()
        taken.append(now - began)
        if now >= ends:
            break
    return taken
