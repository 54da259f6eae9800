"""Many threads at once: no limit is passed, nothing is lost, and no lock is held while others' code runs."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openbox_agentrt.acel import (
    ContentMatch,
    Session,
    TemporalContract,
    at_most_n_times,
    at_most_total,
    came_from,
    max_distinct,
    must_precede,
    never_after,
    rate_limit,
)

CALLERS = 64


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Threads take turns every few instructions, so that what can go wrong does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any], callers: int = CALLERS) -> list[Any]:
    """What each of several threads gets that start together."""
    start = threading.Barrier(callers)

    def begin(number: int) -> Any:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(begin, range(callers)))


@pytest.mark.parametrize(
    "contract",
    [
        at_most_n_times("pay", 10),
        at_most_n_times("pay", 10, within=3600),
        at_most_n_times("pay", 10, key="k"),
        at_most_n_times(ContentMatch("pay", lambda args: True), 10),
        at_most_total("pay", "n", 30),
        at_most_total("pay", "n", 30, within=3600),
        rate_limit("pay", 10, 3600),
        max_distinct("pay", "to", 10),
    ],
    ids=lambda contract: contract.spec,
)
def test_sixty_four_callers_never_pass_a_limit(contract: Any) -> None:
    """Exactly as many get through as the limit says."""
    session = Session(contracts=[contract])

    allowed = at_once(lambda n: session.reserve("pay", {"n": 3, "k": "x", "to": n}))

    assert [r.allowed for r in allowed].count(True) == 10


def test_every_failed_call_gives_back_exactly_what_it_took() -> None:
    """After a storm of calls that fail, abort, commit and get lost, the sums are those of the survivors."""
    session = Session(
        contracts=[
            at_most_total("pay", "n", 10**6),
            at_most_total("pay", "n", 10**6, refund_on_failure=True),
            at_most_n_times("pay", 10**6),
        ]
    )
    kept, refunded = [0] * CALLERS, [0] * CALLERS

    def storm(number: int) -> None:
        dice = random.Random(number)
        for _ in range(100):
            amount = dice.randint(1, 9)
            reservation = session.reserve("pay", {"n": amount})
            match dice.choice(["commit", "failed", "never", "lost"]):
                case "commit":
                    reservation.commit()
                    kept[number] += amount
                    refunded[number] += amount
                case "failed":
                    reservation.abort(ran=True)
                    kept[number] += amount
                case "never":
                    reservation.abort()
                case "lost":
                    kept[number] += amount
                    refunded[number] += amount
            del reservation

    at_once(storm)
    gc.collect()

    assert session.in_flight == 0
    cells = session.snapshot()["memory"]["cells"]
    assert cells["sum(pay; field=n)"]["total"] == str(sum(kept))
    assert cells["sum(pay; field=n; refund)"]["total"] == str(sum(refunded))


def test_steps_are_given_once() -> None:
    """And none is left out."""
    session = Session(contracts=[must_precede("a", "b")])

    steps = [
        step for steps in at_once(lambda n: [session.reserve("a").step for _ in range(20)]) for step in steps
    ]

    assert sorted(steps) == list(range(1, 20 * CALLERS + 1))


def test_no_row_of_the_trace_is_lost() -> None:
    """And the hash is that of the rows."""
    from tests.acel.engine.record.trace_hash import hash_of

    session = Session(contracts=[at_most_n_times("x", 0)])

    at_once(lambda n: [session.call("y", {"n": n}) for _ in range(50)])

    assert len(session.trace) == 50 * CALLERS
    assert session.reserve("x").violations[0].trace_hash == hash_of(session.trace)


def test_a_reservation_is_claimed_by_one_thread() -> None:
    """However many try."""
    from openbox_agentrt.acel import ReservationError

    session = Session(contracts=[at_most_n_times("x", 5)])
    reservation = session.reserve("x")

    def use(number: int) -> bool:
        try:
            reservation.abort()
        except ReservationError:
            return False
        return True

    assert at_once(use).count(True) == 1
    assert session.in_flight == 0


def test_contracts_may_be_added_while_calls_come() -> None:
    """Every call is judged by what was there when it came."""
    session = Session()

    def work(number: int) -> None:
        if number % 2:
            session.add_contract(at_most_n_times("pay", 10**6, id=str(number)))
            session.register_tool(f"tool{number}", precondition=lambda s: True)
        for _ in range(30):
            session.call("pay")
            session.call(f"tool{number}")

    at_once(work)

    assert len(session.contracts) == CALLERS // 2
    assert len(session.trace) == 60 * CALLERS


def test_commits_do_not_interleave() -> None:
    """A commit function that reads and then writes sees no other in between."""
    session = Session({"n": 0, "list": []})

    def commit(state: Any, args: Any, result: Any) -> None:
        n = state["n"]
        state["list"].append(args["i"])
        state["n"] = n + 1

    session.register_tool("x", commit=commit)

    at_once(lambda number: [session.call("x", {"i": number}) for _ in range(20)])

    assert session.state["n"] == 20 * CALLERS == len(session.state["list"])


def test_evidence_has_one_record_per_violation() -> None:
    """None lost, none twice."""
    session = Session(halt_on_violation=False, contracts=[at_most_n_times("x", 0)])

    at_once(lambda number: [session.call("x") for _ in range(5)])

    assert len(session.violations) == len(session.evidence) == 5 * CALLERS
    assert session.evidence.verify()


@pytest.mark.parametrize(
    "where", ["matcher", "precondition", "tool", "postcondition", "commit", "clock", "evidence"]
)
def test_no_lock_is_held_while_others_code_runs(where: str) -> None:
    """A session that is stuck in somebody's code goes on for everybody else."""
    stuck, go_on = threading.Event(), threading.Event()
    slow = threading.current_thread().name

    def stage(name: str) -> Callable[..., Any]:
        def wait(*_: Any, **__: Any) -> Any:
            if name == where and threading.current_thread().name == "slow":
                stuck.set()
                assert go_on.wait(20)
            return 1000.0

        return wait

    class Evidence:
        record = staticmethod(stage("evidence"))

    session = Session(
        contracts=[
            never_after(ContentMatch("x", stage("matcher")), "never"),
            rate_limit("x", 100, 60),
            at_most_n_times("x", 0, mode="shadow"),
        ],
        clock=stage("clock"),
        evidence=Evidence(),
    )
    session.register_tool(
        "x", precondition=stage("precondition"), postcondition=stage("postcondition"), commit=stage("commit")
    )
    thread = threading.Thread(target=session.call, args=("x",), kwargs={"run": stage("tool")}, name="slow")
    thread.start()
    assert stuck.wait(20)

    session.call("y")
    session.reserve("x").abort()
    assert session.in_flight in (0, 1)

    go_on.set()
    thread.join(20)
    assert slow != "slow"
    assert not thread.is_alive()
    assert session.in_flight == 0


def test_a_reservation_may_be_dropped_at_any_moment() -> None:
    """Finalizers run wherever they like, also while the lock is held; none of them waits for it."""
    session = Session(contracts=[at_most_n_times("x", 10**6), at_most_total("x", "n", 10**6)])

    def work(number: int) -> None:
        for _ in range(10):
            reservation = session.reserve("x", {"n": 1})
            # A cycle, so that it is collected at some later moment, in any thread.
            reservation.cycle = reservation  # type: ignore[attr-defined]  # on purpose
            del reservation
            if number == 0:
                gc.collect()

    at_once(work)
    gc.collect()

    assert session.in_flight == 0


@pytest.mark.parametrize(
    "contract",
    [
        must_precede("x", "y", key="k"),
        at_most_total("x", "n", 5, mode="shadow"),
        max_distinct("x", "v", 5, mode="shadow"),
        came_from("x", "v", [{"values": [1]}], mode="shadow"),
    ],
    ids=["key", "total", "distinct", "came_from"],
)
def test_a_dropped_call_ends_at_once_where_an_argument_is_missing(contract: TemporalContract) -> None:
    """Whatever was found out about it, it is in no cycle, which would have to be collected."""
    session = Session(contracts=[contract])
    gc.disable()
    try:
        call = session.reserve("x", {})
        assert call.allowed
        del call
        assert session.in_flight == 0
    finally:
        gc.enable()


def test_a_callback_may_use_the_session() -> None:
    """From inside a tool, a condition or a commit."""
    session = Session({"n": 0})
    session.register_tool(
        "outer",
        precondition=lambda s: session.call("inner", result=True),
        commit=lambda s, a, r: session.state.set("n", len(session.trace)),
    )

    session.call("outer", run=lambda: session.call("inner"))

    assert session.state["n"] == 2
