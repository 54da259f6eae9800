"""Recorded traces."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    ToolCallEvent,
    TraceError,
    at_most_n_times,
    at_most_total,
    must_precede,
    never_after,
    rate_limit,
    required_before_session_end,
)


def broken(session: Session, rows: list[Any]) -> list[tuple[int, str]]:
    return [(v.step, v.spec) for v in session.replay(rows)]


def test_a_trace_is_judged_and_nothing_runs() -> None:
    """Each contract is reported once, at its first violation, and what is unmet at the end."""
    session = Session(
        contracts=[must_precede("a", "b"), at_most_n_times("b", 1), required_before_session_end("z")]
    )

    found = broken(session, [{"tool": "b"}, {"tool": "b"}, {"tool": "b"}])

    assert found == [
        (1, "must_precede(a, b)"),
        (2, "at_most_n_times(b, n=1)"),
        (3, "required_before_session_end(z)"),
    ]
    assert all(not v.blocked for v in session.violations)
    assert session.trace == []


def test_a_session_goes_on_after_a_replay() -> None:
    """Nothing is closed, and what was seen counts."""
    session = Session(contracts=[at_most_n_times("a", 2)])
    session.replay([{"tool": "a"}])

    assert session.reserve("a").allowed
    assert not session.reserve("a").allowed


def test_a_prefix_ends_nothing() -> None:
    """What is owed may still come."""
    session = Session(contracts=[required_before_session_end("z")])

    assert session.replay_prefix([{"tool": "a"}]) == []


def test_the_mode_does_not_matter() -> None:
    """The question is what would have been refused."""
    session = Session(mode="shadow", contracts=[at_most_n_times("a", 0)])

    assert broken(session, [{"tool": "a"}]) == [(1, "at_most_n_times(a, n=0)")]


def test_recorded_times_are_used() -> None:
    """And no clock; a time that steps back is clamped."""

    def clock() -> float:
        raise AssertionError("the clock was read")

    session = Session(contracts=[rate_limit("a", 1, 60)], clock=clock)

    assert (
        session.replay_prefix(
            [ToolCallEvent("a", ts=1000), {"tool": "a", "ts": 1061}, {"tool": "x", "ts": 0}]
        )
        == []
    )
    assert len(session.replay_prefix([{"tool": "a", "ts": 1000}])) == 1


def test_rows_without_a_time_happen_now() -> None:
    """By the session's clock."""
    now = [1000.0]

    def rows() -> Any:
        yield {"tool": "a"}
        now[0] += 61
        yield {"tool": "a"}
        yield {"tool": "a"}

    session = Session(contracts=[rate_limit("a", 1, 60)], clock=lambda: now[0])

    assert broken(session, rows()) == [(3, "rate_limit(a, 1 per 60s)")]


def test_live_calls_follow_a_recorded_prefix_in_time() -> None:
    """Recorded times are seconds since the epoch, and so is a session's clock."""
    import time

    session = Session(contracts=[rate_limit("a", 1, 60)])
    session.replay_prefix([{"tool": "a", "ts": time.time() - 59}])
    assert not session.reserve("a").allowed
    session = Session(contracts=[rate_limit("a", 1, 60)])
    session.replay_prefix([{"tool": "a", "ts": time.time() - 61}])
    assert session.reserve("a").allowed


@pytest.mark.parametrize(
    ("outcome", "limited", "allowed"),
    [("ok", True, True), ("failed", True, False), ("unknown", True, False), ("aborted", False, False)],
)
def test_a_row_says_how_its_call_ended(outcome: str, limited: bool, allowed: bool) -> None:
    """As for live calls: what allows needs a success, what limits only that it ran."""
    session = Session(contracts=[at_most_n_times("a", 1), must_precede("a", "b"), never_after("c", "a")])
    session.replay_prefix([{"tool": "a", "outcome": outcome}])

    assert session.in_flight == 0
    assert session.reserve("c").allowed is not limited
    assert session.reserve("b").allowed is allowed
    assert session.reserve("a").allowed is not limited


def test_a_call_that_never_ran_broke_nothing() -> None:
    """It keeps its step."""
    session = Session(contracts=[at_most_n_times("a", 0)])

    assert broken(session, [{"tool": "a", "outcome": "aborted"}]) == []
    assert session.reserve("b").step == 2


def test_conditions_and_commits_take_part() -> None:
    """A good result becomes state, a bad one does not, and each failure is reported."""
    session = Session({"ok": False}, contracts=[must_precede("a", "b")])
    session.register_tool(
        "a",
        precondition=lambda s, args: args.get("go", True),
        postcondition=lambda s, r: r is True,
        commit=lambda s, a, r: s.set("ok", r),
    )

    found = [
        v.kind
        for v in session.replay_prefix(
            [
                {"tool": "a", "result": False},
                {"tool": "a", "args": {"go": False}},
                {"tool": "a", "result": True},
            ]
        )
    ]

    assert found == ["postcondition", "precondition"]
    assert session.state["ok"] is True
    assert [row["step"] for row in session.trace] == [3]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (5, "expected a mapping, got int"),
        ({}, "'tool' is missing"),
        ({"tool": 5}, "'tool' must be text, got 5"),
        ({"tool": "a", "args": [1]}, "'args' must be a mapping, got list"),
        ({"tool": "a", "ts": "now"}, "'ts' must be a number, got 'now'"),
        ({"tool": "a", "ts": True}, "'ts' must be a number, got True"),
        ({"tool": "a", "ts": float("nan")}, "'ts' must be finite, got nan"),
        ({"tool": "a", "ts": 10**400}, "'ts' must be finite, got inf"),
        ({"tool": "a", "outcome": "x"}, "'outcome' must be one of ok, failed, aborted, unknown, got 'x'"),
    ],
)
def test_a_row_that_cannot_be_read(row: Any, problem: str) -> None:
    """Is named; the rows before it have been judged."""
    session = Session(contracts=[at_most_n_times("a", 0)])

    with pytest.raises(TraceError) as caught:
        session.replay([{"tool": "a"}, row])

    assert str(caught.value) == f"row 2: {problem}"
    assert caught.value.row == 2
    assert len(session.violations) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_event_with_a_bad_time() -> None:
    """Made by hand, it is checked all the same."""
    with pytest.raises(TraceError, match="row 1: 'ts' must be finite"):
        Session().replay([ToolCallEvent("a", ts=float("inf"))])


def test_an_event_from_a_row() -> None:
    """With everything that a row can say."""
    event = ToolCallEvent.from_record(
        {"tool": "a", "args": {"x": 1}, "result": 2, "ts": 3, "outcome": "failed"}
    )

    assert (event.tool, event.args, event.result, event.ts, event.outcome) == (
        "a",
        {"x": 1},
        2,
        3.0,
        "failed",
    )
    assert ToolCallEvent.from_record({"tool": "a", "args": None}).args == {}
    assert str(TraceError("x")) == "x"


def test_amounts_that_happened_count() -> None:
    """A recorded payment over the limit was made."""
    session = Session(contracts=[at_most_total("pay", "n", 5)])
    session.replay_prefix([{"tool": "pay", "args": {"n": 9}}])

    assert session.reserve("pay", {"n": 0}).refusal is not None
