"""What a call through the gate costs depends on the contracts about its tool, and on nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    TemporalContract,
    at_most_n_times,
    at_most_total,
    matching,
    must_precede,
    never_after,
    rate_limit,
    required_before_session_end,
)
from openbox_agentrt.acel.session import engine_of

Count = Callable[[Callable[[], object]], Any]
ARGUMENTS = {"amount": 3, "account": "a1"}
FORMATTING = {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING"}

ABOUT: dict[str, Callable[[], TemporalContract]] = {
    "at most n times": lambda: at_most_n_times("pay", 10**6),
    "only after": lambda: must_precede("check", "pay"),
    "never after": lambda: never_after("pay", "close"),
    "in total": lambda: at_most_total("pay", "amount", 10**9),
    "in a window": lambda: rate_limit("pay", 10_000, 3600),
    "by the end": lambda: required_before_session_end("pay"),
    "by a pattern": lambda: never_after("close", matching("pay", "^a", field="account")),
    "for each account": lambda: at_most_n_times("pay", 10**6, key="account"),
}
each_kind = pytest.mark.parametrize("make", ABOUT.values(), ids=ABOUT.keys())


def unrelated(count: int) -> list[TemporalContract]:
    kinds: list[Callable[[int], TemporalContract]] = [
        lambda n: at_most_n_times(f"tool_{n}", 3),
        lambda n: must_precede(f"first_{n}", f"tool_{n}"),
        lambda n: never_after(f"tool_{n}", f"end_{n}"),
    ]
    return [kinds[number % 3](number) for number in range(count)]


def session_of(*contracts: TemporalContract, **options: Any) -> Session:
    session = Session(contracts=contracts, **options)
    session.call("check", ARGUMENTS, result=1)
    session.call("pay", ARGUMENTS, result=1)
    return session


def pay(session: Session) -> Callable[[], object]:
    return lambda: session.reserve("pay", ARGUMENTS).commit({"ok": True})


MOST_STEPS = {
    "at most n times": 425,
    "only after": 385,
    "never after": 385,
    "in total": 515,
    "in a window": 530,
    "by the end": 410,
    "by a pattern": 560,
    "for each account": 1_090,
}
"""Instructions of a call that is reserved and committed under one contract, and three in a hundred more."""


@pytest.mark.parametrize(("kind", "most"), MOST_STEPS.items(), ids=MOST_STEPS)
def test_one_contract_alone_costs_a_few_hundred_instructions(kind: str, most: int, work_of: Count) -> None:
    """acel-core, whose calls have no way back and no hash, needs half of that and makes larger objects."""
    assert 0.7 * most < work_of(pay(session_of(ABOUT[kind](), max_trace=1000))).steps < most


def test_the_two_halves_of_a_call_cost_little_more(work_of: Count) -> None:
    """What a program of acel-core calls is the same gate."""
    session = session_of(at_most_n_times("pay", 10**6))

    def halves() -> None:
        session.postcheck("pay", session.precheck("pay", ARGUMENTS), {"ok": True})

    for _ in range(60):  # methods of values are made when there are some
        halves()

    assert work_of(halves).steps < work_of(pay(session)).steps + 55


def test_a_condition_costs_no_more_than_asking_it(work_of: Count) -> None:
    """With arguments of its own, which it may change."""
    session, plain = Session(max_trace=1000), Session(max_trace=1000)
    session.register_tool("pay", precondition=lambda state, args: args["amount"] < 9)
    for each in (session, plain):
        pay(each)()

    assert work_of(pay(session)).steps < work_of(pay(plain)).steps + 115


@each_kind
def test_unrelated_contracts_cost_nothing(make: Callable[[], TemporalContract], work_of: Count) -> None:
    """Not a single instruction, be there two or two thousand."""
    few = work_of(pay(session_of(make(), *unrelated(2)))).steps
    many = work_of(pay(session_of(make(), *unrelated(2000)))).steps

    assert few > 20, "counted nothing: this test would pass without checking anything"
    assert many == few


@each_kind
def test_earlier_calls_cost_nothing(make: Callable[[], TemporalContract], work_of: Count) -> None:
    """The gate at call 5000 does what it did at call 10."""
    session = session_of(make())
    early = work_of(pay(session)).steps
    for _ in range(5000):
        pay(session)()

    # Now and then a call sorts a block of rows into the trace; of two in a row, one does not.
    late = min(work_of(pay(session)).steps for _ in range(2))

    assert late == early


def test_other_keys_cost_nothing(work_of: Count) -> None:
    """A contract for each account has one account to look at."""
    session = session_of(at_most_n_times("pay", 10, key="account"))
    few = work_of(pay(session)).steps
    for number in range(3000):
        session.reserve("pay", {"amount": 1, "account": f"b{number}"}).commit(1)

    assert work_of(pay(session)).steps == few


def test_contracts_that_share_a_counter_are_compared_once(work_of: Count) -> None:
    """Of a hundred limits on one tool, the lowest is asked."""
    one = work_of(pay(session_of(at_most_n_times("pay", 1000)))).steps
    hundred = work_of(pay(session_of(*(at_most_n_times("pay", 1000 + n) for n in range(100))))).steps

    assert hundred == one


@each_kind
def test_nothing_is_formatted_for_a_call_that_is_allowed(
    make: Callable[[], TemporalContract], work_of: Count
) -> None:
    """Text is for refusals."""
    done = work_of(pay(session_of(make(), evidence=None))).names

    assert FORMATTING.isdisjoint(done)


def test_the_check_for_formatting_can_find_some(work_of: Count) -> None:
    """A refusal has text."""
    session = session_of(at_most_n_times("pay", 1))

    assert not FORMATTING.isdisjoint(work_of(pay_refused(session)).names)


def pay_refused(session: Session) -> Callable[[], object]:
    return lambda: session.reserve("pay", ARGUMENTS)


class CountingLock:
    """A lock that knows how often it was taken."""

    def __init__(self) -> None:
        self.taken = 0
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self.taken += 1
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        self._lock.release()


def test_the_lock_is_taken_once_to_reserve_and_once_to_commit() -> None:
    """Not for the trace, and not twice."""
    session = session_of(*(make() for make in ABOUT.values()))
    lock: Any = CountingLock()
    engine_of(session).store.lock = lock

    reservation = session.reserve("pay", ARGUMENTS)
    assert lock.taken == 1
    reservation.commit(1)

    assert lock.taken == 2


class CountingClock:
    """A clock that knows how often it was read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self) -> float:
        self.read += 1
        return 1000.0 + self.read


@pytest.mark.parametrize(
    ("contracts", "reads"),
    [
        pytest.param(lambda: [at_most_n_times("pay", 9), must_precede("check", "pay")], 0, id="no time"),
        pytest.param(lambda: [rate_limit("pay", 9, 60), rate_limit("pay", 90, 3600)], 1, id="two windows"),
        pytest.param(lambda: [at_most_n_times("pay", 9), rate_limit("other", 9, 60)], 0, id="another's time"),
    ],
)
def test_the_clock_is_read_only_where_time_matters(
    contracts: Callable[[], list[TemporalContract]], reads: int
) -> None:
    """And once for all windows of a call."""
    clock = CountingClock()
    session = session_of(*contracts(), clock=clock)
    before = clock.read

    pay(session)()

    assert clock.read - before == reads


def test_a_bounded_trace_keeps_memory_flat(allocated_by: Count) -> None:
    """A thousand calls more leave as much behind as a thousand before."""
    session = session_of(at_most_n_times("pay", 10**6), max_trace=50)

    def thousand() -> None:
        for _ in range(1000):
            pay(session)()

    thousand()
    first, second = allocated_by(thousand), allocated_by(thousand)

    assert second < 1.5 * first + 20_000
