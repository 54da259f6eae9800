"""Contracts that come late, what a session's end tells, and what nobody may change on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel import (
    ContentMatch,
    Session,
    at_most_n_times,
    existence,
    required_before_session_end,
    response,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.evidence import EvidenceLog
from openbox_agentrt.acel.verdict import Verdict


def elsewhere(session: Session, contracts: list[TemporalContract]) -> Session:
    """Take a session as JSON, and go on with it."""
    return Session.restore(json.loads(json.dumps(session.snapshot())), contracts)


@pytest.mark.parametrize(
    "duty",
    [
        pytest.param(lambda: required_before_session_end("a", id="late"), id="required_before_session_end"),
        pytest.param(lambda: existence("a", 1, id="late"), id="existence"),
        pytest.param(lambda: required_before_session_end("a", key="id", id="late"), id="with a key"),
    ],
)
def test_a_duty_that_came_late_is_owed_from_then_on(duty: Callable[[], TemporalContract]) -> None:
    """Also after a snapshot: what came before it does not count."""
    session = Session()
    session.call("a", {"id": 1})
    session.add_contract(duty())
    session.reserve("a", {"id": 1}).abort(ran=True)

    restored = elsewhere(session, [duty()])

    assert [violation.id for violation in restored.end_session()] == ["late"]
    again = elsewhere(session, [duty()])
    again.call("a", {"id": 1})
    assert again.end_session() == []


def test_of_two_contracts_that_are_written_alike_the_late_one_stays_the_late_one() -> None:
    """It has its own memory, and its own verdict."""
    session = Session(contracts=[at_most_n_times("a", 2, id="early")])
    session.call("a")
    session.call("a")
    session.add_contract(at_most_n_times("a", 2, id="late"))

    contracts: list[TemporalContract] = [at_most_n_times("a", 2, id=name) for name in ("early", "late")]
    refused = elsewhere(session, contracts).reserve("a")

    assert [violation.id for violation in refused.violations] == ["early"]


def test_of_two_that_are_alike_in_everything_the_second_is_the_late_one() -> None:
    """By their order."""
    session = Session(contracts=[at_most_n_times("a", 2)])
    session.call("a")
    session.add_contract(at_most_n_times("a", 2))

    restored = elsewhere(session, [at_most_n_times("a", 2), at_most_n_times("a", 2)])

    ((text, *place),) = restored.snapshot()["memory"]["since"]
    assert (text.startswith("at_most_n_times(a, n=2) #"), place) == (True, [None, 1, 1])
    restored.call("a")
    assert len(restored.reserve("a").violations) == 1


def test_the_end_names_the_values_that_are_unmet_and_how_many() -> None:
    """As arguments, so that they are redacted as arguments are."""
    session = Session(contracts=[response("pay", "receipt", key="customer.id")], evidence=EvidenceLog())
    for number in range(30):
        session.call("pay", {"customer": {"id": f"c{number}"}})
    session.call("receipt", {"customer": {"id": "c7"}})

    (violation,) = session.end_session()

    assert violation.needs == "receipt, for 29 values of customer.id"
    named = violation.args["customer"]["id"]
    assert named[:3] == ["c0", "c1", "c2"]
    assert len(named) == 20
    assert "c7" not in named


def test_values_of_several_arguments_are_named_by_each() -> None:
    """So that each can be redacted by its name."""
    contracts = [required_before_session_end("pay", key=["to.email", "note"])]
    session = Session(contracts=contracts, redact_fields=["email"])
    for note in ("x", "y" * 200):
        session.reserve("pay", {"to": {"email": "ann@example.org"}, "note": note}).abort(ran=True)

    (violation,) = session.end_session()

    assert violation.needs == "pay, for 2 values of [to.email, note]"
    assert violation.args["note"][0] == "x"
    assert violation.args["to"] == {"email": ["ann@example.org"] * 2}
    assert violation.args["note"][1].startswith("sha256:")
    assert "ann@example.org" not in session.evidence.to_json()


def test_values_that_are_secret_are_not_in_the_evidence() -> None:
    """Not in the words either."""
    session = Session(contracts=[required_before_session_end("pay", key="email")], redact_fields=["email"])
    session.reserve("pay", {"email": "ann@example.org"}).abort(ran=True)

    (violation,) = session.end_session()

    assert violation.needs == "pay, for 1 value of email"
    assert "ann@example.org" not in session.evidence.to_json()


def changing(args: dict[str, Any]) -> bool:
    """Do what a predicate must not do."""
    args.get("to", []).append("eve")
    args["amount"] = 0
    return True


def precondition(session: Session) -> None:
    session.register_tool("pay", precondition=lambda state, args: changing(args))


def commit(session: Session) -> None:
    session.register_tool("pay", commit=lambda state, args, result: changing(args))


def matcher(session: Session) -> None:
    session.add_contract(at_most_n_times(lambda tool, args: changing(args), 5))


def content(session: Session) -> None:
    session.add_contract(at_most_n_times(ContentMatch("pay", changing), 5))


class Changing(TemporalContract):
    """A contract with code of its own."""

    def _step(self, tool: str, args: dict[str, Any]) -> Verdict:
        changing(args)
        return Verdict.UNKNOWN


def own_code(session: Session) -> None:
    session.add_contract(Changing("changing"))


@pytest.mark.parametrize("arrange", [precondition, commit, matcher, content, own_code])
def test_somebody_else_s_code_cannot_change_what_is_recorded(arrange: Callable[[Session], None]) -> None:
    """It gets arguments of its own, also where they are nested."""
    session = Session()
    arrange(session)
    args = {"to": ["ann"], "amount": 5}

    session.call("pay", args)

    assert session.trace[0]["args"] == {"to": ["ann"], "amount": 5} == args


@pytest.mark.parametrize(
    ("first", "second", "dropped"),
    [
        pytest.param({"precondition": bool}, {"commit": print}, "preconditions", id="precondition"),
        pytest.param({"postcondition": bool}, {}, "postconditions", id="postcondition"),
        pytest.param(
            {"precondition": bool, "commit": print},
            {"postcondition": bool},
            "preconditions and commit",
            id="two",
        ),
    ],
)
def test_registering_a_tool_again_says_what_it_drops(
    first: dict[str, Any], second: dict[str, Any], dropped: str
) -> None:
    """It replaces what was there, as with acel-core, and not silently."""
    session = Session()
    session.register_tool("pay", **first)

    with pytest.warns(UserWarning, match=rf"^registering 'pay' again drops its {dropped}: register all"):
        session.register_tool("pay", **second)


def test_registering_a_tool_again_with_as_much_says_nothing() -> None:
    """Another precondition in the place of one is what was asked for."""
    session = Session()
    session.register_tool("pay", precondition=lambda state: True)

    session.register_tool("pay", precondition=lambda state: False, commit=print)

    assert not session.reserve("pay").allowed


def test_resetting_a_contract_forgets_what_it_saw_on_its_own() -> None:
    """And nothing that a session remembers."""
    contract = at_most_n_times("a", 1)
    assert [contract.on_event("a"), contract.on_event("a")] == [Verdict.UNKNOWN, Verdict.VIOLATED]

    contract.reset()

    assert contract.on_event("a") is Verdict.UNKNOWN
    session = Session(contracts=[contract])
    session.call("a")
    contract.reset()
    assert not session.reserve("a").allowed
