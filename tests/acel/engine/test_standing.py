"""How the contracts of a session stand for one call, as people are told it."""

from __future__ import annotations

from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_total, must_precede
from openbox_agentrt.acel.engine.plan.planned_call import PlannedCall
from openbox_agentrt.acel.engine.store.standing import CallStanding, standings_for
from openbox_agentrt.acel.session import engine_of

RULES = [
    at_most_total("pay", "n", 500, when="args.n > 100", id="large"),
    must_precede("verify", "pay", when="session.pay >= 1", id="later"),
    at_most_total("pay", "n", 900, id="all"),
]


def told(session: Session, args: dict[str, Any]) -> dict[str | None, CallStanding]:
    store = engine_of(session).store
    call = PlannedCall("pay", args, store.book.plan("pay"))
    return {one.standing.contract.id: one for one in standings_for(store, call, counted=False)}


@pytest.mark.parametrize(("n", "names"), [(50, {"all"}), (200, {"all", "large"})])
def test_a_contract_with_a_condition_is_told_of_where_it_is_asked(n: int, names: set[str]) -> None:
    """Nothing is claimed of a call that was not looked at, and nothing is left out that refuses it."""
    session = Session(contracts=RULES)

    found = told(session, {"n": n})

    assert found.keys() == names
    assert session.would("pay", {"n": n}) is None
    if "large" in found:
        assert (found["large"].standing.limit, found["large"].left) == ("500", "300")


def test_what_refuses_a_call_by_a_condition_is_told_as_such() -> None:
    """As `would` says of the same call."""
    session = Session(contracts=RULES)
    session.call("pay", {"n": 1})

    found = told(session, {"n": 1})

    assert found["later"].standing.refuses
    refusal = session.would("pay", {"n": 1})
    assert refusal is not None
    assert [broken.id for broken in refusal.broken] == ["later"]
