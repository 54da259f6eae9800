"""Watching without stopping."""

from __future__ import annotations

from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    at_most_total,
    must_precede,
    never_after,
    rate_limit,
    required_before_session_end,
)


def test_shadow_mode_stops_nothing_and_records_everything() -> None:
    """Each call that would have been refused is one record per contract; others are none."""
    session = Session(mode="shadow", contracts=[must_precede("a", "b"), at_most_n_times("b", 1)])

    for tool in ("b", "c", "b", "c", "a", "b"):
        assert session.call(tool, result=1) == 1

    assert [(v.step, v.spec, v.mode, v.blocked) for v in session.violations] == [
        (1, "must_precede(a, b)", "shadow", False),
        (3, "must_precede(a, b)", "shadow", False),
        (3, "at_most_n_times(b, n=1)", "shadow", False),
        (6, "at_most_n_times(b, n=1)", "shadow", False),
    ]
    assert [row["tool"] for row in session.trace] == ["b", "c", "b", "c", "a", "b"]


def test_every_contract_sees_every_event() -> None:
    """A violation of one does not hide the call from the next."""
    session = Session(mode="shadow", contracts=[at_most_n_times("x", 0), never_after("y", "x")])
    session.call("x")
    session.call("y")

    assert [v.spec for v in session.violations] == ["at_most_n_times(x, n=0)", "never_after(y, x)"]


def test_an_amount_that_was_spent_counts() -> None:
    """It was, whatever the limit said."""
    session = Session(mode="shadow", contracts=[at_most_total("pay", "n", 500)])
    for n in (300, 250, "unreadable", 150):
        session.call("pay", {"n": n})

    assert [v.step for v in session.violations] == [2, 3, 4]


def test_one_contract_may_watch_among_others_in_force() -> None:
    """It is recorded, and neither refuses nor appears in the refusal."""
    session = Session(contracts=[at_most_n_times("x", 0, mode="shadow"), at_most_n_times("x", 1)])

    first, second = session.reserve("x"), session.reserve("x")

    assert first.allowed
    assert [(v.mode, v.blocked) for v in first.violations] == [("shadow", False)]
    assert second.refusal is not None
    assert [b.contract for b in second.refusal.broken] == ["at_most_n_times(x, n=1)"]
    assert [(v.mode, v.blocked) for v in second.violations] == [("shadow", False), ("enforce", True)]


def test_precheck_tells_what_is_only_watched() -> None:
    """The gate names the violation and lets the call through."""
    session = Session(contracts=[at_most_n_times("x", 0, mode="shadow")])

    gate = session.precheck("x")

    assert gate.allowed
    assert gate.violation is not None
    assert session.postcheck("x", gate, 1) is None


def test_a_refused_call_is_blamed_on_a_contract_in_force() -> None:
    """Not on one that only watches, though it came first."""
    session = Session(
        halt_on_violation=False, contracts=[at_most_n_times("x", 0, mode="shadow"), at_most_n_times("x", 0)]
    )

    assert session.precheck("x").violation == session.violations[1]
    assert session.call("x").mode == "enforce"


def test_a_bad_result_in_shadow_mode() -> None:
    """It becomes state and is in the trace, as it would without contracts; it allows nothing."""
    session = Session(mode="shadow", contracts=[must_precede("x", "y")])
    session.register_tool("x", postcondition=lambda s, r: r == 1, commit=lambda s, a, r: s.set("r", r))

    assert session.call("x", result=2) == 2

    assert session.state["r"] == 2
    assert len(session.trace) == 1
    session.call("y")
    assert [v.kind for v in session.violations] == ["postcondition", "temporal"]


def test_a_commit_that_fails_in_shadow_mode() -> None:
    """Is recorded and not raised."""
    session = Session(mode="shadow")
    session.register_tool("x", commit=lambda s, a, r: r["missing"])

    assert session.call("x", result={}) == {}
    assert [v.fault for v in session.violations] == ["the commit raised KeyError"]


def test_a_session_may_be_switched() -> None:
    """From watching to enforcing, once the rules are trusted; what it has seen counts."""
    session = Session(mode="shadow", contracts=[at_most_n_times("x", 1)])
    session.call("x")

    session.mode = "enforce"

    assert not session.reserve("x").allowed
    with pytest.raises(ValueError, match="mode must be"):
        session.mode = "off"  # type: ignore[assignment]  # that is what is refused
    assert session.mode == "enforce"


def test_shadow_mode_goes_on_after_the_end_and_after_a_halt() -> None:
    """It never stops anything."""
    session = Session(
        mode="shadow",
        halt_on_violation="session",
        contracts=[at_most_n_times("x", 0, on_violation="halt"), required_before_session_end("z")],
    )
    session.call("x")
    assert session.closed is None
    assert len(session.end_session()) == 1
    before = len(session.violations)

    assert session.call("y", result=1) == 1
    assert len(session.violations) == before


@pytest.mark.parametrize("tool", [None, 5, "x", "\ud800", "x" * 10_000, ""])
@pytest.mark.parametrize("args", [None, {}, [], "text", {1: 2}, {"n": float("nan")}, {"n": object()}])
def test_shadow_mode_never_raises(tool: Any, args: Any) -> None:
    """Whatever is called with whatever."""

    def boom(*_: Any) -> Any:
        raise RuntimeError

    session = Session(
        mode="shadow",
        unknown_tools="refuse",
        clock=boom,
        contracts=[
            at_most_total("*", "n", 1, within=60, key="k"),
            rate_limit("*", 1, 60),
            at_most_n_times(boom, 0),
        ],
    )
    session.register_tool("x", precondition=boom, postcondition=boom, commit=boom)

    assert session.call(tool, args, result=7) == 7
    assert session.precheck(tool, args).allowed
    reservation = session.reserve(tool, args)
    assert reservation.allowed
    assert reservation.commit(object()) is None
    assert len(session.violations) >= 9
