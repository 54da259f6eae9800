"""
What a call costs, counted in instructions of Python, so that no machine and no load can blur it.

A change that makes the gate depend on contracts about other tools, or on how long the session has lasted,
turns one of these red.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    at_most_total,
    cannot_follow_without,
    chain_precedence,
    existence,
    matching,
    must_precede,
    mutually_exclusive,
    never_after,
    rate_limit,
    required_before_session_end,
    response,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.session import engine_of

ARGS = {"amount": 1, "to": "x"}


def instructions(work: Callable[[], Any]) -> int:
    """How many instructions of Python a piece of work takes, at its cheapest of a few times."""

    def once() -> int:
        count = 0

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal count
            frame.f_trace_opcodes = True
            count += event == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
        return count

    # Python 3.12 traces no instructions of a function whose first call it is.
    return min(count for _ in range(4) if (count := once()))


def pay(session: Session) -> None:
    session.reserve("pay", ARGS).commit({"ok": True})


def about_pay() -> list[TemporalContract]:
    return [
        at_most_n_times("pay", 10**9),
        at_most_total("pay", "amount", 10**9),
        never_after("pay", "close"),
    ]


def about_others(count: int) -> list[TemporalContract]:
    """Contracts of every kind that a name alone settles, about other tools."""
    kinds: list[Callable[[int], TemporalContract]] = [
        lambda i: must_precede(f"a{i}", f"b{i}"),
        lambda i: at_most_n_times(f"a{i}", 3),
        lambda i: at_most_total(f"a{i}", "amount", 3),
        lambda i: never_after(f"a{i}", f"b{i}"),
        lambda i: mutually_exclusive(f"a{i}", f"b{i}"),
        lambda i: rate_limit(f"a{i}", 3, 60),
        lambda i: required_before_session_end(f"a{i}"),
        lambda i: at_most_n_times(f"pattern{i}_*", 3),
        lambda i: at_most_n_times(matching(f"a{i}", "x"), 3),
        lambda i: response(f"a{i}", f"b{i}"),
        lambda i: existence(f"a{i}", 1, key="k"),
    ]
    return [kinds[i % len(kinds)](i) for i in range(count)]


def test_other_contracts_cost_nothing() -> None:
    """Ten or five thousand."""
    few = Session(contracts=about_pay() + about_others(11))
    many = Session(contracts=about_pay() + about_others(5500))
    for session in (few, many):
        pay(session)

    assert instructions(lambda: pay(many)) == instructions(lambda: pay(few))


def test_a_call_of_a_tool_without_contracts_costs_no_more_than_none() -> None:
    """The gate looks the tool up, and is done."""
    none, many = Session(), Session(contracts=about_others(550))
    for session in (none, many):
        pay(session)

    assert instructions(lambda: pay(many)) == instructions(lambda: pay(none))


def test_a_long_session_costs_no_more_than_a_short_one() -> None:
    """For a call that is let through, and for one that is refused."""
    short, long = (
        Session(contracts=[*about_pay(), at_most_n_times("ban", 0), must_precede("pay", "ship")])
        for _ in range(2)
    )
    for session, calls in ((short, 100), (long, 20_000)):
        for _ in range(calls):
            pay(session)
        session.reserve("ban", ARGS)

    assert instructions(lambda: pay(long)) == instructions(lambda: pay(short))
    refusals = [instructions(lambda s=s: s.reserve("ban", ARGS)) for s in (short, long)]  # type: ignore[misc]  # a default that binds
    assert refusals[1] == pytest.approx(refusals[0], rel=0.02)


@pytest.mark.parametrize(
    "make",
    [
        lambda i: at_most_n_times("pay", 10**6 + i),
        lambda i: at_most_total("pay", "amount", 10**6 + i),
        lambda i: rate_limit("pay", 1000 + i, 60),
        lambda i: must_precede("pay", f"other{i}"),
        lambda i: required_before_session_end("pay", id=str(i)),
    ],
    ids=["at_most_n_times", "at_most_total", "rate_limit", "must_precede", "required"],
)
def test_contracts_of_one_template_share_their_count(make: Callable[[int], TemporalContract]) -> None:
    """A hundred of them over one tool cost what one costs."""
    one, hundred = (Session(contracts=[make(i) for i in range(n)], clock=lambda: 0.0) for n in (1, 100))
    for session in (one, hundred):
        pay(session)

    assert instructions(lambda: pay(hundred)) == instructions(lambda: pay(one))


def test_each_contract_about_the_tool_costs_little() -> None:
    """What cannot be shared is one comparison in a loop."""
    contracts: list[TemporalContract] = [never_after("pay", f"other{i}") for i in range(100)]
    contracts += [cannot_follow_without("pay", f"needed{i}") for i in range(100)]
    one, many = Session(), Session(contracts=contracts)
    for i in range(100):
        many.call(f"needed{i}")
    for session in (one, many):
        pay(session)

    each = (instructions(lambda: pay(many)) - instructions(lambda: pay(one))) / 200

    assert each < 8


def test_a_contract_about_every_call_costs_each_call_the_same() -> None:
    """However many there are that look at the call before: they share it."""
    one = Session(contracts=[chain_precedence("a", "b")])
    hundred = Session(contracts=[chain_precedence(f"a{i}", f"b{i}") for i in range(100)])
    for session in (one, hundred):
        pay(session)

    assert instructions(lambda: pay(hundred)) == instructions(lambda: pay(one))


def test_one_value_of_a_key_costs_what_every_value_costs() -> None:
    """One or five thousand."""

    def session(values: int) -> Session:
        made = Session(contracts=[at_most_n_times("pay", 10**6, key="to")])
        for value in range(values):
            made.call("pay", {"to": f"v{value}"})
        return made

    few, many = session(1), session(5000)

    assert instructions(lambda: few.call("pay", {"to": "v0"})) == instructions(
        lambda: many.call("pay", {"to": "v0"})
    )


def test_the_gate_takes_its_lock_once() -> None:
    """To reserve. What a success adds to tallies is added by whoever takes the lock next."""
    session = Session(contracts=about_pay())
    pay(session)
    taken = []

    class Counting:
        def __enter__(self) -> None:
            taken.append(1)

        def __exit__(self, *_: object) -> None: ...

    engine_of(session).store.lock = Counting()  # type: ignore[assignment]  # counts, and needs not exclude anyone

    pay(session)

    assert len(taken) == 1


def test_memory_is_flat_when_the_trace_is_bounded() -> None:
    """Calls, refusals and their violations."""
    session = Session(
        max_trace=10,
        contracts=[*about_pay(), at_most_n_times("ban", 0), rate_limit("pay", 50, 0.001)],
        evidence=_Nowhere(),
    )

    def work(calls: int) -> None:
        for _ in range(calls):
            reservation = session.reserve("pay", ARGS)
            if reservation.allowed:
                reservation.commit({"ok": True})
            session.reserve("ban", ARGS)

    tracemalloc.start()
    try:
        work(2000)
        before, _ = tracemalloc.get_traced_memory()
        work(1500)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert after - before < 30_000


class _Nowhere:
    def record(self, violation: object) -> None: ...


def test_nothing_stays_of_a_call_that_is_over() -> None:
    """No reservation is kept alive by its session, so it goes without the garbage collector."""
    import gc
    import weakref

    session = Session(contracts=about_pay())
    gc.disable()
    try:
        reservation = session.reserve("pay", ARGS)
        gone = weakref.ref(reservation)
        reservation.commit()
        del reservation
        assert gone() is None
    finally:
        gc.enable()
