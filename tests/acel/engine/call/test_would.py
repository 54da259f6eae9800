"""`Session.would` says what `reserve` would refuse a call for, and moves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    at_most_n_times,
    at_most_total,
    must_precede,
    never_after,
    rate_limit,
    response,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.refusal import Refusal
from openbox_agentrt.evidence import EvidenceFile, read_entries

calls = st.tuples(
    st.sampled_from(["verify", "refund", "mail", "close"]),
    st.fixed_dictionaries(
        {"customer": st.sampled_from(["a", "b", 7])}, optional={"amount": st.integers(-5, 9)}
    ),
)
endings = st.sampled_from(["commit", "fail", "never ran", "under way", "dropped"])


def contracts() -> list[TemporalContract]:
    return [
        must_precede("verify", "refund", key="customer"),
        alternate_precedence("verify", "refund", key="customer"),
        at_most_total("refund", "amount", limit=10, key="customer"),
        at_most_n_times("mail", n=2),
        rate_limit("mail", 1, 5),
        never_after("mail", "close"),
        response("refund", "mail", within=3),
        at_most_n_times("close", n=1, mode="shadow"),
    ]


class _Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _lead(
    session: Session, time: _Time, history: list[tuple[tuple[str, dict[str, Any]], str]], *, pace: float = 1
) -> list[Any]:
    kept = []
    for (tool, args), ending in history:
        time.now += pace
        reservation = session.reserve(tool, args)
        if not reservation.allowed or ending == "dropped":
            continue
        if ending == "under way":
            kept.append(reservation)
        elif ending == "commit":
            reservation.commit()
        else:
            reservation.abort(ran=ending == "fail")
    return kept


def _known(session: Session) -> tuple[Any, ...]:
    snapshot = session.snapshot()
    # The time of day goes on by itself.
    del snapshot["memory"]["time"]
    return session.in_flight, snapshot, session.trace, session.violations, session.unmet()


@given(st.lists(st.tuples(calls, endings), max_size=12), calls)
def test_it_is_the_refusal_that_reserve_makes(
    history: list[tuple[tuple[str, dict[str, Any]], str]], call: tuple[str, dict[str, Any]]
) -> None:
    """Whatever came before, and however often it is asked."""
    time = _Time()
    session = Session(contracts=contracts(), clock=time)
    kept = _lead(session, time, history)

    asked = [session.would(*call) for _ in range(2)]
    made = session.reserve(*call)

    assert asked == [made.refusal] * 2
    assert made.allowed is (asked[0] is None)
    assert len(kept) <= len(history)


@given(st.lists(st.tuples(calls, endings), max_size=8), st.lists(calls, min_size=1, max_size=4))
def test_nothing_moves(
    history: list[tuple[tuple[str, dict[str, Any]], str]], asked: list[tuple[str, dict[str, Any]]]
) -> None:
    """The snapshot, the trace, the violations and the number of calls under way are as before."""
    time = _Time()
    session = Session(contracts=contracts(), clock=time)
    # All at one time: as it goes on, old calls leave their windows without being asked to.
    kept = _lead(session, time, history, pace=0)
    before = _known(session)

    for tool, args in asked:
        session.would(tool, args)

    assert _known(session) == before
    assert len(kept) <= len(history)


def test_a_step_is_asked_about_and_not_counted() -> None:
    """The refusal names the step that the call would have, and the next call gets it."""
    session = Session(contracts=[must_precede("a", "b")])

    refusal = session.would("b")

    assert isinstance(refusal, Refusal)
    assert refusal.step == 1
    assert session.reserve("a").step == 1


def test_a_session_that_only_watches_refuses_nothing() -> None:
    """As its `reserve` does not either."""
    session = Session(mode="shadow", contracts=[must_precede("a", "b")])

    assert session.would("b") is None
    assert session.violations == []


def test_a_session_that_has_ended_admits_nothing() -> None:
    """It says so, as `reserve` does."""
    session = Session(contracts=[at_most_n_times("a", n=1)])
    session.end_session()

    refusal = session.would("a")

    assert refusal is not None
    assert refusal == session.reserve("a").refusal


def test_preconditions_are_asked() -> None:
    """A condition that does not hold is named."""
    session = Session({"open": False})
    session.register_tool("a", precondition=lambda state: state["open"])

    refusal = session.would("a")

    assert refusal is not None
    assert [broken.kind for broken in refusal.broken] == ["precondition"]
    assert refusal == session.reserve("a").refusal


@pytest.mark.parametrize("call", [("a", ["no mapping"]), (7, {})], ids=["arguments", "tool"])
def test_a_call_of_the_wrong_shape_would_be_refused(call: Any) -> None:
    """It is not raised."""
    session = Session()

    refusal = session.would(*call)

    assert refusal is not None
    assert refusal == session.reserve(*call).refusal


def test_asking_does_not_forget_a_prerequisite() -> None:
    """At the bound of its keys a contract forgets the oldest success when a call is made, and not before."""
    session = Session(contracts=[must_precede("a", "b", key="k")], max_keys=2)
    for value in ("x", "y"):
        session.call("a", {"k": value})

    session.would("a", {"k": "z"})

    assert session.would("b", {"k": "x"}) is None


def test_no_step_is_recorded(tmp_path: Path) -> None:
    """An evidence file with steps holds what happened, and not what was asked."""
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(contracts=[must_precede("a", "b")], evidence=evidence)
        session.call("a")
        session.would("b")
        session.would("c")

    steps = [entry.data["e"] for entry in read_entries(tmp_path / "log.jsonl") if entry.type == "step"]
    assert steps == ["start", "reserve", "commit"]
