"""Contracts that many sessions share: compiled once, remembered apart."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    existence,
    must_precede,
    never_after,
    requires_state,
    response,
)
from openbox_agentrt.acel.config import parse_rules
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.engine.plan.rule_set import SharedRules
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.acel.verdict import Verdict


def rules_of(session: Session) -> object:
    return engine_of(session).store.book.rules


def test_a_tuple_is_compiled_once() -> None:
    """A list may be changed by its owner, so it is compiled anew."""
    contracts = (at_most_n_times("pay", 1),)

    assert rules_of(Session(contracts=contracts)) is rules_of(Session(contracts=contracts))
    assert rules_of(Session(contracts=[*contracts])) is not rules_of(Session(contracts=[*contracts]))


def test_rules_that_were_read_are_compiled_once() -> None:
    """They are given to a session as they are."""
    rules = parse_rules("contracts: [{template: at_most_n_times, args: [pay], kwargs: {n: 1}}]")

    first, second = Session(contracts=rules), Session(contracts=rules)

    assert rules_of(first) is rules_of(second)
    assert first.reserve("pay").allowed
    assert not first.reserve("pay").allowed
    assert second.reserve("pay").allowed


def test_sessions_remember_apart() -> None:
    """What one has counted, and what it was told later, is nothing to the other."""
    contracts = (at_most_n_times("pay", 1), never_after("pay", "close"), existence("log", 1))
    first, second = Session(contracts=contracts), Session(contracts=contracts)

    first.call("pay")
    first.call("close")
    first.add_contract(at_most_n_times("read", 0))

    assert not first.reserve("read").allowed
    assert second.reserve("read").allowed
    assert second.reserve("pay").allowed
    assert len(second.contracts) == 3
    assert isinstance(rules_of(second), SharedRules)


def test_a_late_contract_sees_what_comes_after_it() -> None:
    """Also in a session whose other contracts are shared."""
    contracts = (at_most_n_times("pay", 5),)
    session = Session(contracts=contracts)
    session.call("pay")

    late = session.add_contract(at_most_n_times("pay", 1))

    assert session.reserve("pay").allowed
    refused = session.reserve("pay")
    assert [violation.spec for violation in refused.violations] == [late.spec]


def test_a_verdict_is_that_of_the_session_that_was_opened_last() -> None:
    """A contract alone cannot tell which of its sessions is meant. A session can."""
    contract = must_precede("check", "delete")
    contracts = (contract,)
    first, second = Session(contracts=contracts), Session(contracts=contracts)

    second.call("check")

    assert [contract.verdict, first.verdict(contract)] == [Verdict.SATISFIED, Verdict.UNKNOWN]
    del second
    gc.collect()
    assert [contract.verdict] == [Verdict.UNKNOWN]


def test_what_is_no_contract_is_refused_in_every_collection() -> None:
    """And so is one that is there twice."""
    contract = at_most_n_times("pay", 1)

    for wrong in ((contract, "pay"), [contract, "pay"]):
        with pytest.raises(TypeError, match="a contract is needed"):
            Session(contracts=wrong)  # type: ignore[arg-type]  # what is tested
    for twice in ((contract, contract), [contract, contract]):
        with pytest.raises(ValueError, match="already added"):
            Session(contracts=twice)


def test_times_of_state_entries_are_kept_from_the_beginning() -> None:
    """Where a shared contract asks for them."""
    contracts = (requires_state("pay", "open", True, within=60),)

    assert Session({"open": True}, contracts=contracts).reserve("pay").allowed


def test_a_shared_contract_with_a_window_reports_in_each_session() -> None:
    """Each session has its own clock."""
    contracts = (response("ask", "answer"),)
    first, second = Session(contracts=contracts), Session(contracts=contracts)
    first.call("ask")

    assert [violation.needs for violation in first.end_session()] == ["answer"]
    assert second.end_session() == []


def test_opening_a_session_does_not_look_at_each_contract() -> None:
    """Its cost is the same with twenty contracts and with ten thousand."""

    def size(count: int) -> int:
        contracts: tuple[TemporalContract, ...] = tuple(at_most_n_times(f"t{n}", 1) for n in range(count))
        kept = [Session(contracts=contracts)]
        gc.collect()
        tracemalloc.start()
        try:
            kept += [Session(contracts=contracts) for _ in range(20)]
            gc.collect()
            return tracemalloc.get_traced_memory()[0] // 20
        finally:
            tracemalloc.stop()

    few, many = size(20), size(2000)

    assert few <= 3072
    assert many <= few + 64
