"""The calls that ran, as a trace keeps them."""

from __future__ import annotations

import json
import weakref
from typing import Any

import pytest

from openbox_agentrt._plain.bounding import weight
from openbox_agentrt.acel.engine.record.trace import BLOCK, KEPT_ROOM, Trace

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


class Page(dict[str, Any]):
    """An argument of which one can tell if it is still held."""


def test_who_keeps_no_rows_holds_few_until_they_are_hashed() -> None:
    """Of thousands of sessions at once, what waits for its hash would be most of their memory."""
    trace, held = Trace(0), list[weakref.ref[Page]]()
    for step in range(60):
        args = {"page": Page(text="x")}
        held.append(weakref.ref(args["page"]))
        trace.add(step, "read", args, None)

    # The loop holds one, and the trace may hold a few.
    assert sum(page() is not None for page in held) < 10
    assert trace.mark()[0] == 60


LARGE = {"to": "ann", "body": "x" * 2_000_000, "more": ["y" * 500_000, {"$cut": "of the user"}]}


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_a_bounded_trace_keeps_no_large_row_whole(late: bool) -> None:
    """What is small of it stays, the rest goes by its digest, and the hash is that of the whole rows."""
    bounded, whole = Trace(20), Trace()
    for trace in (bounded, whole):
        if late:
            trace.put_off()
        for step in range(30):
            trace.add(step, "send", LARGE, {"text": "z" * 1_000_000})

    rows: list[Any] = bounded.rows()

    assert len(rows) == 20
    assert weight(rows) < 20 * (2 * KEPT_ROOM + 500)
    assert rows[-1]["args"]["to"] == "ann"
    assert rows[-1]["args"]["body"]["length"] == 2_000_000
    assert bounded.mark() == whole.mark()
    assert whole.rows()[-1]["args"] == LARGE


def test_a_large_row_is_let_go_of_before_anybody_asks() -> None:
    """A session that nobody asks for its trace does not wait for a full block."""
    trace = Trace(20)
    for step in range(30):
        trace.add(step, "send", {"body": "x" * 200_000}, None)

    held = sum(len(str(kept)) for kept in [*trace._new, *(trace._rows or ())])

    assert held < 30 * 2_000


def test_records_show_a_row_the_same_after_a_restart() -> None:
    """A row that was cut is no mapping of the user that looks like a mark."""
    before = Trace(20)
    before.add(1, "send", LARGE, {"$cut": "of the user"})
    rows, length, digest = before.whole()
    after = Trace(20)
    after.resume(json.loads(json.dumps(rows)), length, digest)

    assert after.last(5, room=9_000)[0] == before.last(5, room=9_000)[0]
    assert "$mapping" not in after.rows()[0]["args"]
