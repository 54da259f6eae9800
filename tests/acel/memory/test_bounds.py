"""Memory is bounded, and at the bound the engine refuses rather than forgets."""

from __future__ import annotations

from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    at_most_n_times,
    at_most_total,
    chain_precedence,
    existence,
    matching,
    max_distinct,
    must_precede,
    never_after,
    rate_limit,
    response,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.contracts.rules import MAX_IN_WINDOW
from openbox_agentrt.acel.engine.plan.plan_book import MAX_PLANS
from openbox_agentrt.acel.engine.plan.rule_set import MAX_KEPT_NAME
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.testing import ManualClock


@pytest.mark.parametrize(
    "contract",
    [
        at_most_n_times("x", 1, key="k"),
        at_most_total("x", "n", 5, key="k"),
        never_after("y", "x", key="k"),
        must_precede("x", "y", key="k"),
        response("x", "y", key="k"),
        max_distinct("x", "n", 3, key="k"),
        existence("x", 1, key="k"),
        rate_limit(matching("x", "", field="k"), 1, 60, key="k"),
    ],
    ids=lambda contract: contract.spec,
)
def test_one_value_too_many_is_refused(contract: TemporalContract) -> None:
    """Forgetting an old one would give it a fresh start."""
    session = Session(contracts=[contract], max_keys=3)
    for key in range(3):
        session.call("x", {"k": key, "n": 1})

    reservation = session.reserve("x", {"k": "new", "n": 1})

    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].fault == "k has more than 3 values"
    assert [session.reserve("y", {"k": key}).allowed for key in range(3)].count(True) in (0, 3)


def test_a_value_whose_only_call_never_ran_makes_room() -> None:
    """Nothing is remembered of it."""
    session = Session(contracts=[at_most_n_times("x", 1, key="k")], max_keys=1)
    first = session.reserve("x", {"k": 1})
    assert not session.reserve("x", {"k": 2}).allowed

    first.abort()

    assert session.reserve("x", {"k": 2}).allowed


@pytest.mark.parametrize(
    "contract",
    [
        rate_limit("x", 1, 60, key="k"),
        at_most_total("x", "n", 5, key="k", within=60),
        max_distinct("x", "n", 3, key="k", within=60),
        must_precede("x", "y", key="k", within=60),
        alternate_precedence("x", "y", key="k", within=60),
    ],
    ids=lambda contract: contract.spec,
)
def test_values_whose_window_has_passed_make_room(contract: TemporalContract) -> None:
    """They are looked for when the bound is met, a few times per window at most."""
    clock = ManualClock(1000)
    session = Session(contracts=[contract], max_keys=3, clock=clock.time)
    for key in range(3):
        session.call("x", {"k": key, "n": 1})
    assert not session.reserve("x", {"k": 9, "n": 1}).allowed
    clock.advance(61)

    assert session.reserve("x", {"k": 9, "n": 1}).allowed


def test_a_flood_of_values_is_not_searched_for_room_each_time() -> None:
    """Looking through all of them is dear, so in between they are refused."""
    clock = ManualClock(1000)
    session = Session(contracts=[rate_limit("x", 1, 60, key="k")], max_keys=1, clock=clock.time)
    session.call("x", {"k": 1})
    clock.advance(59)
    assert not session.reserve("x", {"k": 2}).allowed

    clock.advance(2)
    assert not session.reserve("x", {"k": 2}).allowed
    clock.advance(2)
    assert session.reserve("x", {"k": 2}).allowed


def test_a_value_that_is_in_use_is_kept() -> None:
    """Whatever its window says: its call has still to be settled."""
    clock = ManualClock(1000)
    session = Session(contracts=[must_precede("x", "y", key="k", within=60)], max_keys=1, clock=clock.time)
    flying = session.reserve("x", {"k": 1})
    clock.advance(1000)
    assert not session.reserve("x", {"k": 2}).allowed

    flying.commit()

    assert session.reserve("y", {"k": 1}).allowed


def test_a_value_whose_call_got_lost_makes_room_in_time() -> None:
    """It is settled, and so no longer in use."""
    clock = ManualClock(1000)
    session = Session(contracts=[rate_limit("x", 1, 60, key="k")], max_keys=1, clock=clock.time)
    session.reserve("x", {"k": 1})
    clock.advance(61)

    assert session.reserve("x", {"k": 2}).allowed


def test_where_forgetting_can_only_refuse_more_the_oldest_is_forgotten() -> None:
    """An `a` that is forgotten allows no `b`; calls about other values are not refused for it."""
    session = Session(contracts=[chain_precedence("a", "b", key="k")], max_keys=2)
    for key in range(5):
        session.call("a", {"k": key})
        session.call("other", {"k": key + 100})
    session.call("a", {"k": 7})

    assert not session.reserve("b", {"k": 0}).allowed
    assert session.reserve("b", {"k": 7}).allowed


def test_values_under_way_are_not_forgotten_either() -> None:
    """Then there is no room."""
    session = Session(contracts=[chain_precedence("a", "b", key="k")], max_keys=2)
    flying = [session.reserve("a", {"k": key}) for key in range(2)]

    assert not session.reserve("a", {"k": 3}).allowed
    flying[0].abort()
    assert session.reserve("a", {"k": 3}).allowed


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda n: rate_limit("x", n, 60), "n must be at most 10000"),
        (lambda n: at_most_n_times("x", n, within=60), "n must be at most 10000"),
        (lambda n: existence("x", n, within=60), "n must be at most 10000"),
        (lambda n: max_distinct("x", "k", n), "n must be at most 10000"),
    ],
)
def test_a_limit_beyond_what_is_kept_is_an_error(build: Any, match: str) -> None:
    """It could not be told from none."""
    build(MAX_IN_WINDOW)
    with pytest.raises(ValueError, match=match):
        build(MAX_IN_WINDOW + 1)


@pytest.mark.parametrize(
    "contract",
    [at_most_total("x", "n", 10**9, within=3600), max_distinct("x", "n", 3, within=3600)],
    ids=lambda contract: contract.spec,
)
def test_a_window_that_is_full_refuses(contract: TemporalContract) -> None:
    """Until its oldest call has left it; in shadow mode, where nothing is refused, the oldest goes."""
    clock = ManualClock(1000)
    session = Session(contracts=[contract], clock=clock.time, max_trace=0)
    watching = Session(mode="shadow", contracts=[contract], clock=clock.time, max_trace=0)
    for _ in range(MAX_IN_WINDOW):
        session.call("x", {"n": 1})
        watching.call("x", {"n": 1})
    refused = session.reserve("x", {"n": 1})
    assert refused.refusal is not None
    assert refused.refusal.broken[0].fault == "the window holds as many calls as it can"
    watching.call("x", {"n": 1})
    assert len(watching.violations) == 1

    clock.advance(3601)

    assert session.reserve("x", {"n": 1}).allowed


def test_values_in_shadow_mode_are_bounded() -> None:
    """A value too many is reported, goes through, and is not remembered."""
    session = Session(mode="shadow", contracts=[at_most_n_times("x", 1, key="k")], max_keys=3)
    for key in range(6):
        session.call("x", {"k": key})
        session.call("x", {"k": key})

    cells = session.snapshot()["memory"]["cells"]
    assert list(cells["tally(x; key=k)"]) == ["0", "1", "2"]
    assert [v.fault for v in session.violations].count("k has more than 3 values") == 6
    assert len(session.violations) == 9


def test_windows_in_shadow_mode_are_bounded() -> None:
    """And still say the same."""
    session = Session(
        mode="shadow",
        contracts=[
            rate_limit("x", 2, 3600),
            alternate_precedence("x", "never"),
            max_distinct("x", "n", 2),
            must_precede("x", "y", within=3600),
        ],
        max_trace=0,
        trace_window=0,
    )
    flying = session.reserve("x", {"n": -1})
    for n in range(MAX_IN_WINDOW + 5):
        session.reserve("x", {"n": n}).commit()
    flying.abort()

    cells = session.snapshot()["memory"]["cells"]

    assert len(cells["stamps(x; within=3600.0)"]) == MAX_IN_WINDOW
    assert len(cells["marks(x; within=3600.0)"]["marks"]) == MAX_IN_WINDOW
    assert len(cells["tokens(x, never)"]) == MAX_IN_WINDOW
    assert len(cells["distinct(x; field=n)"]["counts"]) == MAX_IN_WINDOW - 1


def test_unanswered_calls_without_a_window_need_no_memory() -> None:
    """What answers the latest answers them all."""
    session = Session(contracts=[response("a", "b")], max_trace=0)
    for _ in range(MAX_IN_WINDOW + 5):
        session.call("a")
    flying = session.reserve("a")

    assert len(session.snapshot()["memory"]["cells"]["pending(a, b)"]) == 2
    session.call("b")
    flying.commit()
    assert session.unmet() == []


def test_plans_are_bounded() -> None:
    """Names come from a model, and there is no end to them."""
    session = Session(contracts=[at_most_n_times("db_*", 0)], max_trace=0)
    for n in range(MAX_PLANS + 10):
        session.reserve(f"tool{n}").abort()
    session.reserve("x" * (MAX_KEPT_NAME + 1)).abort()

    assert len(engine_of(session).store.book.plans) <= MAX_PLANS
    assert not any(len(name) > MAX_KEPT_NAME for name in engine_of(session).store.book.plans)
    assert not session.reserve("db_1").allowed
