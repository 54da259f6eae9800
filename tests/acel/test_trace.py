"""The calls that ran, as a trace keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from openbox_agentrt.acel.engine.trace import BLOCK, Trace

ROWS: list[tuple[str, dict[str, Any], Any]] = [
    ("pay", {"amount": 5, "to": "é"}, {"ok": True}),
    ("read", {}, None),
    ("odd", {"text": "\ud800", "number": float("nan")}, {1, 2}),
]


def filled(count: int, *, late: bool) -> Trace:
    trace = Trace(20)
    if late:
        trace.put_off()
    for step in range(count):
        tool, args, result = ROWS[step % len(ROWS)]
        trace.add(step, tool, args, result)
    return trace


@pytest.mark.parametrize("count", [0, 1, 2, 3, BLOCK + 7])
def test_a_trace_that_encodes_late_has_the_same_hash(count: int) -> None:
    """And the same rows."""
    at_once, late = filled(count, late=False), filled(count, late=True)

    assert repr(late.whole()) == repr(at_once.whole())
    assert late.mark() == at_once.mark()
