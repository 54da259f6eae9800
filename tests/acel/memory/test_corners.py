"""What rarely happens: odd orders, odd windows, odd numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel import (
    Session,
    StateStore,
    alternate_precedence,
    at_most_n_times,
    at_most_total,
    chain_precedence,
    matching,
    max_distinct,
    must_precede,
    rate_limit,
    requires_state,
)
from openbox_agentrt.acel.contracts.rules import NOTHING
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.memory.clock import MonotoneClock
from openbox_agentrt.acel.memory.guard import Breach, wait_for
from openbox_agentrt.acel.memory.state import StateDraft
from openbox_agentrt.acel.memory.window import Stamps
from openbox_agentrt.testing import ManualClock


@given(st.floats(0, 4e9), st.floats(0, 1e6))
def test_adding_what_is_to_be_waited_gets_there(now: float, wait: float) -> None:
    """However the two numbers round."""
    timeline = MonotoneClock(lambda: now)
    timeline.advance(now)
    breach = Breach(contract=at_most_n_times("x", 0))

    wait_for(breach, Stamps(timeline, 60), now + wait)

    assert breach.retry_after is not None
    assert now + breach.retry_after >= now + wait


@pytest.mark.parametrize(
    ("now", "moment"),
    [(0.2577602088806046, 81.47617634473345), (1e9 + 0.3, 1e9 + 60.30000001), (3.0, 3.0000000000000004)],
)
def test_a_difference_that_rounds_down_is_rounded_up(now: float, moment: float) -> None:
    """So that nobody comes back too early."""
    timeline = MonotoneClock(lambda: now)
    timeline.advance(now)
    breach = Breach(contract=at_most_n_times("x", 0))

    wait_for(breach, Stamps(timeline, 60), moment)

    assert breach.retry_after is not None
    assert now + breach.retry_after >= moment


def test_a_late_success_of_an_earlier_call_is_not_the_latest() -> None:
    """Two calls that end in the other order leave the later one as the call before."""
    session = Session(contracts=[chain_precedence("a", "b")])
    first, second = session.reserve("a"), session.reserve("a")
    second.commit()
    first.commit()

    assert session.reserve("b").allowed


def test_an_amount_that_can_no_longer_be_read_still_counts() -> None:
    """A redaction that takes the amount away does not give it back."""
    session = Session(contracts=[at_most_total("pay", "n", 10)])

    session.reserve("pay", {"n": 10}).commit(args={"n": "***"})

    assert not session.reserve("pay", {"n": 1}).allowed


def test_a_negative_amount_that_is_corrected() -> None:
    """What ran counts, and only that."""
    session = Session(contracts=[at_most_total("pay", "n", 10, allow_negative=True)])
    session.call("pay", {"n": 10})

    session.reserve("pay", {"n": -5}).commit(args={"n": -3})

    assert not session.reserve("pay", {"n": 4}).allowed
    assert session.reserve("pay", {"n": 3}).allowed


def test_an_amount_that_is_taken_back_after_its_window() -> None:
    """It has left the sum already, and does not leave it twice."""
    clock = ManualClock(1000)
    session = Session(
        contracts=[at_most_total("pay", "n", 10, within=60), max_distinct("pay", "to", 2, within=60)],
        clock=clock.time,
    )
    flying = session.reserve("pay", {"n": 10, "to": "a"})
    clock.advance(61)
    session.call("pay", {"n": 5, "to": "b"})
    flying.abort()

    assert session.reserve("pay", {"n": 5, "to": "c"}).allowed
    assert not session.reserve("pay", {"n": 1, "to": "b"}).allowed


def test_an_amount_that_never_ran_leaves_its_window() -> None:
    """At once."""
    clock = ManualClock(1000)
    session = Session(contracts=[at_most_total("pay", "n", 10, within=60)], clock=clock.time)
    session.reserve("pay", {"n": 10}).abort()

    assert session.reserve("pay", {"n": 10}).allowed


def test_how_long_until_enough_has_left_a_window() -> None:
    """Not the first call's time, if it frees too little."""
    clock = ManualClock(1000)
    session = Session(contracts=[at_most_total("pay", "n", 10, within=60)], clock=clock.time)
    session.call("pay", {"n": 1})
    clock.advance(10)
    session.call("pay", {"n": 9})

    refusal = session.reserve("pay", {"n": 5}).refusal

    assert refusal is not None
    assert refusal.broken[0].retry_after == pytest.approx(60, abs=0.001)


def test_a_call_that_is_limited_and_matched_by_its_arguments() -> None:
    """What ran is looked at again for what depends on arguments, and not for what does not."""
    session = Session(
        contracts=[
            must_precede(matching("sh", "test"), "ship"),
            must_precede("sh", "note"),
            at_most_n_times("sh", 1),
        ]
    )

    session.reserve("sh", {"command": "test"}).commit(args={"command": "none"})

    assert not session.reserve("ship").allowed
    assert session.reserve("note").allowed
    assert not session.reserve("sh").allowed


def test_what_was_measured_for_another_field() -> None:
    """Is no business of a limit on this one."""
    session = Session(
        contracts=[at_most_total("llm_call", "cost", 5), at_most_total("llm_call", "tokens", 5)]
    )

    session.reserve("llm_call", {"cost": 1}, deferred=["tokens"]).commit(measured={"tokens": 1})

    assert session.violations == []


async def test_what_really_ran_on_the_async_path() -> None:
    """As with `commit`."""
    session = Session()

    await session.reserve("x", {"a": "secret"}).acommit("r", args={"a": "***"})

    assert session.trace[0]["args"] == {"a": "***"}


def test_a_prerequisite_of_a_key_that_was_used_up() -> None:
    """Is given back to its own key."""
    session = Session(contracts=[alternate_precedence("a", "b", key="k")])
    session.call("a", {"k": 1})
    session.reserve("b", {"k": 1}).abort()

    assert not session.reserve("b", {"k": 2}).allowed
    assert session.reserve("b", {"k": 1}).allowed


@pytest.mark.parametrize("order", [1, -1], ids=["lowest first", "lowest last"])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: at_most_n_times("x", n),
        lambda n: at_most_n_times("x", n, within=60),
        lambda n: at_most_n_times("x", n, key="k"),
        lambda n: at_most_total("x", "n", n),
        lambda n: at_most_total("x", "n", n, within=60),
        lambda n: max_distinct("x", "to", n),
        lambda n: rate_limit("x", n, 60),
    ],
    ids=["count", "window", "key", "total", "total in a window", "distinct", "rate"],
)
def test_of_several_limits_on_one_memory_each_holds(make: Any, order: int) -> None:
    """Whichever was added first, the lowest refuses, and all that are exceeded are named."""
    session = Session(contracts=[make(n) for n in (2, 3, 5)[::order]])

    def reserve(number: int) -> Any:
        return session.reserve("x", {"k": 1, "n": 1, "to": number})

    assert [reserve(n).allowed for n in range(3)] == [True, True, False]
    refusal = reserve(3).refusal
    assert refusal is not None
    assert len(refusal.broken) == 1


def test_each_limit_of_a_shared_window_has_its_own_wait() -> None:
    """The lower one has to wait for more calls to leave."""
    clock = ManualClock(1000)
    session = Session(
        contracts=[rate_limit("x", 1, 60, mode="shadow"), rate_limit("x", 3, 60)], clock=clock.time
    )
    for _ in range(3):
        session.call("x")
        clock.advance(10)

    lower, higher = session.reserve("x").violations

    assert lower.retry_after == pytest.approx(50, abs=0.001)
    assert higher.retry_after == pytest.approx(30, abs=0.001)


class Unfriendly(Mapping[str, Any]):
    """A mapping whose own code raises."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        return 1


def test_arguments_whose_own_code_raises() -> None:
    """Are a malformed call."""
    refusal = Session().reserve("x", Unfriendly()).refusal

    assert refusal is not None
    assert refusal.broken[0].contract == "the call has a name and a mapping of arguments"


def test_the_state_of_a_session() -> None:
    """Gives what it holds itself; programs written for acel-core change it in place."""
    store = StateStore({"a": [1]})
    store.get("a").append(2)

    assert store["a"] == [1, 2]
    assert store.get("b", 5) == 5
    draft = StateDraft(store)
    draft["a"].append(3)
    assert draft["a"] == [1, 2, 3]
    assert draft.get("a") == [1, 2, 3]


def test_two_contracts_that_need_times_of_writing() -> None:
    """The times are kept once."""
    clock = ManualClock(1000)
    session = Session(
        {"k": 1},
        contracts=[requires_state("x", "k", 1, within=60), requires_state("y", "k", 1, within=10)],
        clock=clock.time,
    )
    clock.advance(30)

    assert session.reserve("x").allowed
    assert not session.reserve("y").allowed


def test_times_of_writing_while_the_clock_fails() -> None:
    """The last time that is known."""
    now: list[Any] = [1000.0]
    session = Session({"k": 1}, contracts=[requires_state("x", "k", 1, within=60)], clock=lambda: now[0])
    session.reserve("x")
    now[0] = None
    session.state.set("k", 1)
    now[0] = 1030.0

    assert session.reserve("x").allowed


def test_whether_a_tool_has_conditions() -> None:
    """For whoever wraps it."""
    session = Session()
    session.register_tool("x", precondition=lambda s: True)

    assert session.has_conditions("x")
    assert not session.has_conditions("y")


def test_a_template_says_nothing_by_itself() -> None:
    """Until it is told what."""

    class Silent(Template):
        template = "silent"

        def __init__(self) -> None:
            super().__init__([], {})

    silent = Silent()
    assert silent.rule(()) is NOTHING
    assert Session(contracts=[silent]).reserve("x").allowed


def test_the_log_is_made_once() -> None:
    """Two threads that need the log at once make one."""
    from concurrent.futures import ThreadPoolExecutor

    session = Session()
    with ThreadPoolExecutor(16) as pool:
        logs = set(pool.map(lambda _: id(session.evidence), range(64)))

    assert len(logs) == 1
