"""A refusal costs the same after a hundred calls and after a hundred thousand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openbox_agentrt.acel import Session, must_precede
from openbox_agentrt.acel.session import engine_of

Count = Callable[[Callable[[], object]], Any]
LONG = 20_000


def lived(calls: int) -> Session:
    session = Session(contracts=[must_precede("backup", "delete")])
    for number in range(calls):
        session.reserve("read", {"id": number}).commit({"ok": True})
    refuse(session)()  # what the trace has put off is done
    return session


def refuse(session: Session) -> Callable[[], object]:
    return lambda: session.reserve("delete", {"id": 7})


def test_a_refusal_does_the_same_after_any_number_of_calls(work_of: Count) -> None:
    """It looks at the last twenty."""
    short, long = work_of(refuse(lived(100))).steps, work_of(refuse(lived(LONG))).steps

    assert short > 100, "counted nothing: this test would pass without checking anything"
    # Numbers of more digits, and nothing else.
    assert abs(long - short) <= 0.02 * short


def test_a_refusal_does_not_copy_the_trace(allocated_by: Count) -> None:
    """A copy of 20 000 rows would hold 200 times the memory."""
    short, long = allocated_by(refuse(lived(100))), allocated_by(refuse(lived(LONG)))

    assert long < 1.5 * short + 4096


class CountingHash:
    """A hash that knows how much went into it."""

    def __init__(self, inner: Any) -> None:
        self.bytes = 0
        self._inner = inner

    def update(self, data: bytes) -> None:
        self.bytes += len(data)
        self._inner.update(data)

    def hexdigest(self) -> str:
        digest: str = self._inner.hexdigest()
        return digest


def test_the_trace_is_hashed_once() -> None:
    """What was hashed for one refusal is not for the next."""
    session = lived(LONG)
    trace: Any = engine_of(session).rows
    trace._hash = counting = CountingHash(trace._hash)
    session.reserve("read", {"id": 1}).commit({"ok": True})

    refuse(session)()
    once = counting.bytes
    refuse(session)()

    assert 0 < once < 200
    assert counting.bytes == once
