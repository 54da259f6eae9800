"""How far a contract reaches: what is accepted, what is refused, and how cells are named."""

from __future__ import annotations

from typing import Any

import pytest

from openbox_agentrt.acel import Session, any_of, build_contract, matching, mutually_exclusive
from openbox_agentrt.acel.config import parse_rules
from openbox_agentrt.acel.contracts.identity import meaning_of
from openbox_agentrt.acel.contracts.rebuilding import rebuilt
from openbox_agentrt.acel.contracts.registry import CLASSES
from openbox_agentrt.acel.contracts.shapes import SpecError
from openbox_agentrt.acel.engine.plan.rule_set import RuleSet
from openbox_agentrt.acel.temporal import at_most_n_times, at_most_total, must_precede

FLEET: dict[str, list[Any]] = {
    "must_precede": ["a", "b"],
    "cannot_follow_without": ["a", "b"],
    "at_most_n_times": ["a", 1],
    "at_most_total": ["a", "amount", 5],
    "never_after": ["a", "b"],
    "mutually_exclusive": ["a", "b"],
    "max_distinct": ["a", "f", 1],
    "alternate_precedence": ["a", "b"],
}
LOCAL: dict[str, list[Any]] = {
    "response": ["a", "b"],
    "chain_precedence": ["a", "b"],
    "init": ["a"],
    "existence": ["a", 1],
    "required_before_session_end": ["a"],
    "requires_state": ["a", "k", True],
    "never": ["a"],
    "only": ["a"],
}


def cell(contract: Any) -> Any:
    excepted = () if contract.excepted is None else (False,)
    (move,) = contract.rule_for((*[True] * (len(contract.roles) - len(excepted)), *excepted)).moves[-1:]
    return move.cell


def built(template: str, args: list[Any], **more: Any) -> Any:
    return build_contract({"template": template, "args": args, **more})


@pytest.mark.parametrize("template", FLEET)
def test_what_can_be_counted_can_be_of_the_fleet(template: str) -> None:
    """With an end, or with the word that none is meant."""
    args = FLEET[template]

    for end in ({"per": "day"}, {"within": 60}, {"forever": True}):
        contract = built(template, args, scope="fleet", **end)
        assert rebuilt(meaning_of(contract)) is not None
    with pytest.raises(SpecError, match="scope 'fleet' counts for ever: give per or within, or forever"):
        built(template, args, scope="fleet")


def test_a_rate_limit_has_its_own_window() -> None:
    """It needs no other, and takes none."""
    assert built("rate_limit", ["a", 1, 60], scope="fleet").reach.is_fleet
    with pytest.raises(SpecError, match="per and within exclude each other"):
        built("rate_limit", ["a", 1, 60], per="day")


@pytest.mark.parametrize("template", LOCAL)
def test_what_belongs_to_one_session_cannot_be_of_the_fleet(template: str) -> None:
    """There is no common end, order or state, or nothing to share."""
    assert LOCAL.keys() | FLEET.keys() | {"rate_limit"} <= CLASSES.keys()
    with pytest.raises(SpecError, match=rf"{template} cannot have scope 'fleet': "):
        built(template, LOCAL[template], scope="fleet", forever=True)
    assert built(template, LOCAL[template], scope="run").reach.scope == "run"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        pytest.param({"per": "day", "within": 5}, "per and within exclude each other", id="two windows"),
        pytest.param({"per": "year"}, "must be one of hour, day, week, month, got 'year'", id="period"),
        pytest.param({"tz": "UTC"}, "tz needs per", id="zone alone"),
        pytest.param({"per": "day", "tz": "Mars"}, "there is no time zone 'Mars'", id="no such zone"),
        pytest.param({"forever": True}, "forever needs scope 'fleet'", id="forever here"),
        pytest.param({"scope": "fleet", "per": "day", "forever": True}, "never counts anew", id="both"),
        pytest.param({"scope": "global"}, "must be one of run, session, fleet, got 'global'", id="scope"),
        pytest.param({"scope": "fleet", "forever": True, "overshoot": True}, "no option 'over", id="no sum"),
    ],
)
def test_what_makes_no_sense_is_refused(more: dict[str, Any], problem: str) -> None:
    """With what to write instead."""
    with pytest.raises(SpecError, match=problem):
        built("at_most_n_times", ["a", 1], **more)


def test_code_needs_a_name_that_other_processes_know() -> None:
    """Two functions are never one cell by accident: there is a name, or an error."""
    big, small = (lambda tool, args: args["n"] > 5), (lambda tool, args: args["n"] <= 5)

    with pytest.raises(ValueError, match="is code, which no other process knows: give the contract a name="):
        at_most_n_times(big, 1, scope="fleet", per="day")
    first, second = (
        at_most_n_times(code, 1, scope="fleet", per="day", name=name)
        for code, name in ((big, "big"), (small, "small"))
    )

    assert cell(first).fleet_name() != cell(second).fleet_name()


def test_one_name_for_two_functions_is_refused() -> None:
    """What one counts would use up what the other allows."""
    big, small = (lambda tool, args: args["n"] > 5), (lambda tool, args: args["n"] <= 5)
    first, same, second = (
        at_most_n_times(code, limit, scope="fleet", per="day", name="sums")
        for code, limit in ((big, 1), (big, 2), (small, 3))
    )

    rules = RuleSet([first, same])
    with pytest.raises(ValueError, match="give each a name= of its own instead of 'sums'"):
        rules.add(second)
    with pytest.raises(ValueError, match="give each a name= of its own instead of 'sums'"):
        rules.extended(second)
    assert rules.contracts == [first, same]


def test_two_functions_of_one_contract_are_two_cells() -> None:
    """Though it has one name: else whatever is let through shuts itself out."""
    left, right = (lambda tool, args: tool == "a"), (lambda tool, args: tool == "b")
    contract = mutually_exclusive(left, right, scope="fleet", forever=True, name="sides")

    names = [contract.rule(hits).moves[0].cell.fleet_name() for hits in ((True, False), (False, True))]

    assert names[0] != names[1]


def test_the_name_of_a_cell_says_what_it_counts_and_no_limit() -> None:
    """So a rolling deploy with another limit goes on with what was counted."""
    names = {
        cell(at_most_total("refund", "amount", limit, scope="fleet", per="day", key="customer")).fleet_name()
        for limit in (500, 400, 0.5)
    }

    assert names == {
        '{"field":"amount","flags":[],"fold":null,"key":"customer","kind":"sum","of":[["tool","refund"]],'
        '"per":["day","UTC"],"saving":true,"scale":2,"values":null,"within":null}'
    }


def test_alternatives_in_another_order_are_the_same_cell() -> None:
    """And what is written in quotes cannot pass for another name."""
    one, other, quoted = (
        at_most_n_times(tool, 1, scope="fleet", forever=True)
        for tool in (any_of("a", "b"), any_of("b", "a"), 'a"],["tool","b')
    )

    assert cell(one).fleet_name() == cell(other).fleet_name() != cell(quoted).fleet_name()


def test_an_exception_and_a_pattern_are_part_of_the_name() -> None:
    """They change which calls are counted."""
    names = {
        cell(contract).fleet_name()
        for contract in (
            at_most_n_times("a", 1, scope="fleet", forever=True),
            at_most_n_times("a", 1, scope="fleet", forever=True, except_=matching("a", "x", field="f")),
            at_most_n_times(matching("a", "x", field="f"), 1, scope="fleet", forever=True),
        )
    }

    assert len(names) == 3


def test_a_window_that_outlives_its_scope_is_warned_of() -> None:
    """A session ends after a day without a run; the fleet remembers."""
    text = """contracts:
  - {template: at_most_n_times, args: [a, 1], per: week}
  - {template: at_most_n_times, args: [b, 1], within: 90000}
  - {template: at_most_n_times, args: [c, 1], per: day, scope: run}
  - {template: at_most_n_times, args: [d, 1], per: day}
  - {template: at_most_n_times, args: [e, 1], per: month, scope: fleet}
"""

    warnings = parse_rules(text).warnings

    assert [warning.line for warning in warnings] == [2, 3, 4]
    assert "counts for longer than it can remember: a session ends after a day" in warnings[0].message
    assert "a run is over before that, and scope: fleet remembers" in warnings[2].message


def test_a_key_of_the_subject_is_no_argument() -> None:
    """Nothing that a model can say passes for the customer that a run is about."""
    contract = at_most_total("refund", "amount", 100, key="$subject.customer")
    session = Session(contracts=[contract], subject={"customer": "c-7"})
    forged = {"amount": 60, "$subject.customer": "c-8", "$subject": {"customer": "c-9"}}

    assert session.reserve("refund", {"amount": 60}).allowed
    refused = session.reserve("refund", forged)

    assert not refused.allowed
    assert refused.refusal is not None
    assert refused.refusal.broken[0].remaining == "40 left of 100"


def test_without_the_subject_that_a_key_needs_a_call_is_refused() -> None:
    """What cannot be told apart is not let through."""
    session = Session(contracts=[at_most_n_times("a", 5, key=["$subject.tenant", "region"])])

    refusal = session.reserve("a", {"region": "eu"}).refusal

    assert refusal is not None
    assert refusal.broken[0].fault == "$subject.tenant is missing"


@pytest.mark.parametrize(
    "subject", [{"customer": None}, {"customer": ["c"]}, {1: "x"}, {"a.b": "x"}, "c-7", {"": "x"}]
)
def test_a_subject_is_names_and_texts_or_numbers(subject: Any) -> None:
    """Anything else is refused when the session is made."""
    with pytest.raises(TypeError, match="a subject must be a mapping of names to texts or whole numbers"):
        Session(subject=subject)


def test_an_option_that_is_not_given_changes_no_text_and_no_identity() -> None:
    """Rules of before keep the hash that logs know them by."""
    contract = must_precede("a", "b")

    assert contract.spec == "must_precede(a, b)"
    assert not {"scope", "per", "tz", "forever", "overshoot", "name"} & meaning_of(contract).keys()
