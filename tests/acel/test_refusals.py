"""A refusal names every contract, who is to blame, and what would make the call possible."""

from __future__ import annotations

import json
import pickle

import pytest

from openbox_agentrt.acel import (
    Broken,
    ContractViolation,
    Refusal,
    Session,
    alternate_precedence,
    at_most_n_times,
    at_most_total,
    chain_precedence,
    max_distinct,
    must_precede,
    mutually_exclusive,
    never_after,
    precondition,
    rate_limit,
    requires_state,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.testing import ManualClock


def refused(session: Session, tool: str = "x", args: dict[str, object] | None = None) -> Refusal:
    """The refusal of a call that must be refused."""
    refusal = session.reserve(tool, args).refusal
    assert refusal is not None
    return refusal


def test_every_broken_contract_is_named() -> None:
    """The first one does not hide the others, and they come in the order of adding."""
    session = Session(
        contracts=[must_precede("a", "x"), at_most_n_times("x", 0), at_most_n_times("y", 0)],
        state={"ok": False},
    )
    session.register_tool("x", precondition=[lambda s: s["ok"], lambda s: True, lambda s, args: "id" in args])

    refusal = refused(session)

    assert [b.kind for b in refusal.broken] == ["precondition", "precondition", "temporal", "temporal"]
    assert [b.contract for b in refusal.broken[2:]] == ["must_precede(a, x)", "at_most_n_times(x, n=0)"]


@pytest.mark.parametrize(
    ("contract", "needs"),
    [
        (must_precede("a", "x"), "a"),
        (alternate_precedence("a", "x"), "a"),
        (chain_precedence("a", "x"), "a immediately before"),
        (requires_state("x", "role", "admin"), "role to be 'admin'"),
        (never_after("x", "x"), "a call that is not x as well"),
    ],
)
def test_what_is_missing_is_named(contract: TemporalContract, needs: str) -> None:
    """The call becomes possible once that has happened."""
    assert refused(Session(contracts=[contract])).broken[0].needs == needs


@pytest.mark.parametrize(
    "contract", [never_after("x", "b"), mutually_exclusive("x", "b"), never_after("x", "b", within=60)]
)
def test_the_earlier_call_to_blame_is_named(contract: TemporalContract) -> None:
    """It is given by its step, counting refused calls."""
    session = Session(contracts=[contract, at_most_n_times("never", 0)])
    session.reserve("never")
    session.call("b")

    broken = refused(session).broken[0]

    assert (broken.blame, broken.needs) == (2, "no earlier b")


def test_a_call_that_was_taken_back_is_not_blamed() -> None:
    """Where the first call never ran and others did, nobody is blamed rather than the wrong one."""
    session = Session(contracts=[never_after("x", "b")])
    first = session.reserve("b")
    session.call("b")
    first.abort()

    assert refused(session).broken[0].blame is None


def test_what_comes_between_is_blamed() -> None:
    """For a call that must come immediately after another."""
    session = Session(contracts=[chain_precedence("a", "x")])
    session.call("a")
    between = session.reserve("other")

    assert refused(session).broken[0].blame == between.step


@pytest.mark.parametrize(
    ("contract", "args", "remaining"),
    [
        (at_most_n_times("x", 2), {}, "0 left of 2"),
        (at_most_total("x", "n", 500), {"n": "x"}, "420.5 left of 500"),
        (at_most_total("x", "n", 80), {"n": 1}, "0.5 left of 80"),
        (max_distinct("x", "to", 1), {"to": "z"}, "0 left of 1"),
    ],
)
def test_what_is_left_of_a_budget_is_told(
    contract: TemporalContract, args: dict[str, object], remaining: str
) -> None:
    """As a number of the budget's own kind."""
    session = Session(contracts=[contract])
    for n in (40, 39.5):
        session.call("x", {"n": n, "to": "a"})

    assert refused(session, "x", args).broken[0].remaining == remaining


@pytest.mark.parametrize(
    "contract",
    [
        rate_limit("x", 2, 60),
        at_most_n_times("x", 2, within=60),
        at_most_total("x", "n", 2, within=60),
        never_after("x", "x0", within=60),
    ],
    ids=lambda contract: str(contract.spec),
)
def test_waiting_as_long_as_told_is_enough(contract: TemporalContract) -> None:
    """And not a moment less: the boundary still counts."""
    clock = ManualClock(1e9 + 0.3)
    session = Session(contracts=[contract], clock=clock.time)
    session.call("x0")
    others = 0 if "never" in contract.spec else 2
    for _ in range(others):
        session.call("x", {"n": 1})
    clock.advance(7.1)

    wait = refused(session, "x", {"n": 1}).broken[0].retry_after

    assert wait is not None
    assert wait == pytest.approx(60 - 7.1)
    clock.advance(wait - 1e-6)
    assert not session.reserve("x", {"n": 1}).allowed
    clock.advance(1e-6 + 1e-7)
    assert session.reserve("x", {"n": 1}).allowed


def test_no_wait_is_told_where_waiting_does_not_help() -> None:
    """A single amount above the limit fits at no time; a ban does not expire."""
    session = Session(contracts=[at_most_total("x", "n", 2, within=60), at_most_n_times("x", 0, within=60)])

    assert [b.retry_after for b in refused(session, "x", {"n": 3}).broken] == [None, None]


def test_the_message_is_one_line() -> None:
    """It says what, where, why, and what to do."""
    session = Session(contracts=[must_precede("check", "x"), at_most_total("x", "n", 5)])

    assert refused(session, "x", {"n": 7}).message == (
        "call to 'x' refused at step 1, it would break must_precede(check, x): needs check; "
        "at_most_total(x, n, limit=5): 5 left of 5"
    )


def test_a_hostile_name_does_not_make_the_message_long() -> None:
    """Names come from a model."""
    session = Session(contracts=[at_most_n_times("*", 0)])

    refusal = refused(session, "x\n" * 5000)

    assert len(refusal.message) < 1000
    assert "\n" not in refusal.message
    assert len(refusal.for_model()["tool"]) <= 200


def test_what_a_model_sees_holds_no_secret() -> None:
    """No argument, no state, no trace; and it is JSON."""
    session = Session(
        contracts=[
            must_precede("a", "x", remedy="call a first", id="R1"),
            at_most_total("x", "n", 5),
            at_most_n_times("x", 0, key="customer"),
        ],
        state={"token": "s3cret"},
    )
    session.call("b", {"password": "s3cret"})
    session.register_tool("x", precondition=lambda s, args: args["s3cret-missing"])

    refusal = refused(session, "x", {"n": "s3cret", "customer": ["s3cret"]})

    told = json.dumps(refusal.for_model())
    assert "s3cret" not in told
    assert '"contract": "a precondition of x"' in told
    assert '"remedy": "call a first"' in told


def test_a_contract_s_own_words_are_passed_on() -> None:
    """Id, severity, remedy and what is to happen."""
    contract = at_most_n_times(
        "x", 0, id="NO-X", severity="critical", remedy="do not", on_violation="halt", description="why"
    )
    session = Session(contracts=[contract])

    reservation = session.reserve("x")

    broken = reservation.refusal.broken[0]  # type: ignore[union-attr]  # refused, so it is there
    violation = reservation.violations[0]
    for said in (broken, violation):
        assert (said.id, said.severity, said.remedy, said.on_violation) == (
            "NO-X",
            "critical",
            "do not",
            "halt",
        )
    assert contract.description == "why"


def test_a_refusal_is_a_value() -> None:
    """It compares, hashes and pickles."""
    one, other = (
        Session(contracts=[at_most_n_times("x", 0)]).reserve("x").refusal,
        Session(contracts=[at_most_n_times("x", 0)]).reserve("x").refusal,
    )

    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


def test_the_exception_carries_all_of_it() -> None:
    """And survives another process."""
    session = Session(contracts=[must_precede("a", "x"), at_most_n_times("x", 0)])

    with pytest.raises(ContractViolation) as caught:
        session.call("x", {"deep": [{"set": {1, 2}}]})

    error = pickle.loads(pickle.dumps(caught.value))
    assert error == caught.value
    assert hash(error) == hash(caught.value)
    assert error != ValueError()
    assert [v.spec for v in error.violations] == ["must_precede(a, x)", "at_most_n_times(x, n=0)"]
    assert error.violation is error.violations[0]
    assert error.refusal.tool == "x"
    assert str(error) == "temporal violation at step 1: call to 'x' broke contract must_precede(a, x)"


def test_a_violation_is_frozen_when_it_is_taken() -> None:
    """What is done to arguments, state and results later does not reach it."""
    state = {"seen": ["a"]}
    session = Session(state, contracts=[at_most_n_times("x", 0)])
    args = {"to": ["a"]}
    result = {"rows": [1]}
    session.call("y", args, result=result)
    violation = session.reserve("x", args).violations[0]

    args["to"].append("b")
    result["rows"].append(2)
    session.state["seen"].append("b")

    assert violation.args == {"to": ["a"]}
    assert violation.state_snapshot == {"seen": ["a"]}
    assert violation.trace == [{"step": 1, "tool": "y", "args": {"to": ["a"]}, "result": {"rows": [1]}}]


def test_a_violation_is_a_value() -> None:
    """It compares and hashes, live objects in arguments and results notwithstanding."""
    import threading

    taken = [
        Session(contracts=[at_most_n_times("x", 0)]).reserve("x", {"lock": threading.Lock()}).violations[0]
        for _ in range(2)
    ]

    assert taken[0] == taken[1]
    assert hash(taken[0]) == hash(taken[1])
    assert pickle.loads(pickle.dumps(taken[0])) == taken[0]


def test_records_in_both_forms() -> None:
    """Format 1 has acel-core's eight fields; the full record has them all."""
    violation = Session(contracts=[at_most_n_times("x", 0)], session_id="s1").reserve("x").violations[0]

    assert list(violation.to_dict()) == [
        "kind",
        "spec",
        "tool",
        "step",
        "trace",
        "state_snapshot",
        "args",
        "result",
    ]
    assert violation.to_record()["session_id"] == "s1"
    json.dumps(violation.to_record())


def test_broken_describes_itself() -> None:
    """Every part that is known, and nothing that is not."""
    broken = Broken(contract="c", needs="a", remaining="1 left of 2", retry_after=12.34, fault="no clock")

    assert broken.describe() == "c: no clock, needs a, 1 left of 2, retry after 12.3 s"
    assert Broken(contract="c").describe() == "c"
    assert Broken(contract="c", retry_after=1.23456).for_model() == {"contract": "c", "retry_after": 1.235}


def test_decorated_conditions_are_named_by_their_source() -> None:
    """So a reader of the refusal knows which one it was."""

    @precondition(lambda s: s.get("authenticated") is True)
    def read() -> None: ...

    session = Session()
    session.register(read)

    assert refused(session, "read").broken[0].contract.startswith('lambda s: s.get("authenticated") is True')
