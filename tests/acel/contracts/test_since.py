"""A prerequisite that has to come after the latest call of another kind; and calls under way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    any_of,
    at_most_in_flight,
    build_contract,
    matching,
    must_precede,
    rules_hash,
)
from openbox_agentrt.acel.contracts.identity import meaning_of
from openbox_agentrt.acel.contracts.rebuilding import rebuilt
from openbox_agentrt.acel.rulesfile import ConfigError, parse_rules
from openbox_agentrt.testing import ManualClock

YES = matching("user_prompt", "^yes", field="prompt")


def says(session: Session, text: str) -> None:
    session.call("user_prompt", {"prompt": text})


def test_a_yes_after_the_last_message() -> None:
    """An earlier one, for something else, is not saved up."""
    session = Session(contracts=[must_precede(YES, any_of("pay", "cancel"), since="user_prompt")])

    says(session, "yes")
    assert session.reserve("pay").allowed
    says(session, "and now cancel")
    refusal = session.reserve("cancel").refusal

    assert refusal is not None
    assert refusal.broken[0].needs == "user_prompt(prompt~/^yes/) after the latest user_prompt"
    assert refusal.broken[0].blame == 3
    says(session, "Yes!")
    assert session.reserve("cancel").allowed


def test_one_yes_for_each_write() -> None:
    """Also for two that are asked for side by side: the first has voided it."""
    session = Session(contracts=[must_precede("confirm", "write", since=any_of("write", "user_prompt"))])
    session.call("confirm")

    first, second = session.reserve("write"), session.reserve("write")

    assert (first.allowed, second.allowed) == (True, False)
    first.abort()
    assert session.reserve("write").allowed  # it never ran


def test_what_may_void_does() -> None:
    """A list with one text that matches, and what cannot be read, are on the strict side."""
    edit = matching("edit", "prod", field="files")
    for files in (["test", "prod"], object()):
        session = Session(contracts=[must_precede("review", "deploy", since=edit)])
        session.call("review")
        session.call("edit", {"files": files})
        assert not session.reserve("deploy").allowed


def test_what_ran_as_another_voids_what_began_before_its_end() -> None:
    """Nobody knows when in between it did."""
    session = Session(contracts=[must_precede("review", "deploy", since=matching("edit", "prod", field="f"))])
    edit = session.reserve("edit", {"f": "test"})
    session.call("review")
    edit.commit(args={"f": "prod"})

    assert not session.reserve("deploy").allowed
    session.call("review")
    assert session.reserve("deploy").allowed


def test_a_key_for_each_tool_need_not_name_what_voids() -> None:
    """It then voids what every value has; it may, and a tool without a role may not."""
    key = {"find": "id", "refund": "order"}
    contract = must_precede("find", "refund", key=key, since="user_prompt")
    session = Session(contracts=[contract])
    session.call("find", {"id": 1})
    session.call("find", {"id": 2})
    assert session.reserve("refund", {"order": 1}).allowed
    says(session, "another one")
    assert not session.reserve("refund", {"order": 2}).allowed

    must_precede("find", "refund", key={**key, "user_prompt": "about"}, since="user_prompt")
    with pytest.raises(ValueError, match="'other' has no role"):
        must_precede("find", "refund", key={**key, "other": "id"}, since="user_prompt")


def test_within_and_since() -> None:
    """Both have to hold."""
    clock = ManualClock()
    contract = must_precede("a", "b", since="c", within=10)
    session = Session(contracts=[contract], clock=clock.time)
    session.call("a")
    clock.advance(11)
    assert not session.reserve("b").allowed
    session.call("a")
    assert session.reserve("b").allowed
    session.call("c")
    assert not session.reserve("b").allowed


def test_its_identity_and_its_form() -> None:
    """Rules with and without it differ, and it is made again of its form."""
    without, with_it = must_precede("a", "b"), must_precede("a", "b", since=any_of("c", YES))

    assert rules_hash([without]) != rules_hash([with_it])
    assert "since" not in meaning_of(without)["terms"]
    again = rebuilt(meaning_of(with_it))
    assert again is not None
    assert meaning_of(again) == meaning_of(with_it)
    assert with_it.spec == "must_precede(a, b, since=any_of(c, user_prompt(prompt~/^yes/)))"


def test_a_word_of_one_template_is_none_of_another() -> None:
    """The error names the template, and stands where the word does."""
    with pytest.raises(ConfigError, match=r"rules.yaml:2: contracts\[0\].since: never has no 'since'"):
        parse_rules("contracts:\n  - {template: never, args: [a], since: b}\n", name="rules.yaml")
    with pytest.raises(ConfigError, match="'since' is given twice"):
        parse_rules("contracts:\n  - {template: must_precede, args: [a, b], since: c, kwargs: {since: c}}\n")


SPECS: list[dict[str, Any]] = [
    {"template": "must_precede", "args": ["a", "b"], "since": "c"},
    {"template": "must_precede", "args": ["a", "b"], "since": "c", "key": "k"},
    {"template": "at_most_in_flight", "args": ["b", 1]},
]


@pytest.mark.parametrize("voided", [False, True])
@pytest.mark.parametrize("args", [{}, {"k": 1}])
def test_it_goes_on_elsewhere(voided: bool, args: dict[str, Any]) -> None:
    """With what was given, what voided it, and what was under way."""
    contracts = [build_contract(spec) for spec in SPECS]
    session = Session(contracts=contracts)
    session.call("a", {"k": 1})
    if voided:
        flying = session.reserve("c", args)  # noqa: F841 - under way while the snapshot is taken
    taken = json.loads(json.dumps(session.snapshot()))

    restored = Session.restore(taken, contracts)

    assert restored.reserve("b", {"k": 1}).allowed is not voided


def test_a_dropped_call_may_still_run() -> None:
    """So nothing comes beside it, unless the rules say for how long."""
    clock = ManualClock()
    for within, later in ((None, False), (30, True)):
        session = Session(contracts=[at_most_in_flight("a", 1, within=within)], clock=clock.time)
        call = session.reserve("a")
        del call
        refusal = session.reserve("a").refusal
        assert refusal is not None
        assert refusal.broken[0].blame == 1
        clock.advance(31)
        assert session.reserve("a").allowed is later


def test_what_ran_as_another_has_ended() -> None:
    """It is under way no more, neither as what it was let through nor as what it ran as."""
    session = Session(contracts=[at_most_in_flight(matching("sh", "deploy"), 1)])

    session.reserve("sh", {"command": "deploy"}).commit(args={"command": "ls"})
    session.reserve("sh", {"command": "ls"}).commit(args={"command": "deploy"})

    assert session.reserve("sh", {"command": "deploy"}).allowed
