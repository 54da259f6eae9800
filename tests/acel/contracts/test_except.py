"""Calls that are none of a contract's business."""

from __future__ import annotations

from typing import Any

import pytest

from openbox_agentrt.acel import (
    ContentMatch,
    Session,
    any_of,
    at_most_n_times,
    build_contract,
    chain_precedence,
    init,
    matching,
    must_precede,
    never_after,
    only,
    rules_hash,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.rulesfile import ConfigError, parse_rules


def allowed(contract: TemporalContract, *calls: str | tuple[str, dict[str, Any]]) -> list[bool]:
    """Whether each call is let through; those that are succeed."""
    session = Session(contracts=[contract])
    found = []
    for call in calls:
        reservation = session.reserve(*((call,) if isinstance(call, str) else call))
        found.append(reservation.allowed)
        if reservation.allowed:
            reservation.commit()
    return found


def test_what_comes_before_the_first() -> None:
    """An agent has to be asked something before it can log in."""
    login = init("login", except_=["llm_call", "user_prompt"])

    assert allowed(login, "user_prompt", "llm_call", "pay", "login", "pay") == [True, True, False, True, True]
    assert login.spec == "init(login, except=any_of(llm_call, user_prompt))"


def test_what_stands_between_two_calls() -> None:
    """The model is asked between any two tools, and is no tool."""
    chain = chain_precedence("preview", "publish", except_="llm_call")

    assert allowed(chain, "preview", "llm_call", "publish") == [True, True, True]
    assert allowed(chain, "preview", "edit", "publish") == [True, True, False]


def test_what_goes_on_after_the_end() -> None:
    """Nothing is deleted once the work was handed over, but for what is only a draft."""
    done = never_after("delete_*", "hand_over", except_="delete_draft")
    calls = ["delete_a", "hand_over", "delete_a", "delete_draft"]

    assert allowed(done, *calls) == [True, True, False, True]


def test_what_goes_on_after_the_last_call() -> None:
    """Nothing but what ends the work, and the last call may come again."""
    done = never_after("*", "hand_over", except_=["hand_over", "log_out", "run_*"])
    calls = ["work", "hand_over", "work", "log_out", "hand_over", "run_ended"]

    assert allowed(done, *calls) == [True, True, False, True, True, True]


def test_an_exception_that_leaves_nothing() -> None:
    """A contract that can never bite is a mistake."""
    for make in (
        lambda: at_most_n_times("pay", 1, except_="pay"),
        lambda: must_precede("check", any_of("pay", "sell"), except_="*"),
        lambda: never_after("pay", "done", except_=["pay", "done"]),
    ):
        with pytest.raises(ValueError, match="except takes away every call of"):
            make()
    assert never_after("pay", "done", except_="done").excepted is not None


def test_what_is_not_counted() -> None:
    """A contract with an exception and one without count by themselves."""
    session = Session(contracts=[at_most_n_times("*", 2, except_="free"), at_most_n_times("*", 4)])

    assert [session.reserve(tool).allowed for tool in ("free", "free", "a", "a", "b")] == [True] * 4 + [False]
    (broken,) = session.violations[:1]
    assert broken.spec == "at_most_n_times(*, n=2, except=free)"
    names = session.snapshot()["memory"]["cells"]
    assert len(names) == 2


def test_what_cannot_be_told_to_be_excepted_is_not() -> None:
    """The strict side: a matcher that raises excepts nothing."""

    def boom(args: dict[str, Any]) -> bool:
        raise RuntimeError

    for matcher in (ContentMatch("pay", boom), matching("pay", "x", field="a.b")):
        ban = at_most_n_times("pay", 0, except_=matcher)
        assert allowed(ban, ("pay", {"a": {"b": "x"}, "a.b": "x"})) == [False]


def test_an_exception_by_argument() -> None:
    """Small payments need no check."""
    check = must_precede("check", "pay", except_=matching("pay", "^[0-9]$", field="amount"))

    assert allowed(
        check, ("pay", {"amount": 5}), ("pay", {"amount": 50}), "check", ("pay", {"amount": 50})
    ) == [
        True,
        False,
        True,
        True,
    ]


EXCEPT = ["llm_call", {"tool": "a", "matches": "b"}]


@pytest.mark.parametrize(
    "given", [{"except": EXCEPT}, {"kwargs": {"except": EXCEPT}}], ids=["beside", "among"]
)
def test_exceptions_in_data(given: dict[str, Any]) -> None:
    """Beside the template or among its arguments."""
    in_code = init("login", except_=["llm_call", matching("a", "b")])

    hashes = {rules_hash([init("login")]), rules_hash([init("login", except_="llm_call")])}

    assert rules_hash([build_contract({"template": "init", "args": ["login"], **given})]) == rules_hash(
        [in_code]
    )
    assert len(hashes | {rules_hash([in_code])}) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("except: []", "contracts[0].except: there is nothing that is excepted"),
        ("except: 5", "contracts[0].except: must be a matcher or a list of matchers, got a whole number"),
        ("except: [a, 5]", "contracts[0].except[1]: must be the name of a tool or a matcher"),
        ("except: [a], kwargs: {except: [b]}", "contracts[0].except: 'except' is given twice"),
        ("except: {tool: a}", "contracts[0].except: a matcher must have 'tool' and 'matches'"),
    ],
)
def test_exceptions_that_are_none(given: str, message: str) -> None:
    """They are refused with their place."""
    text = f"contracts: [{{template: init, args: [a], {given}}}]"
    with pytest.raises(ConfigError) as caught:
        parse_rules(text)
    assert message in str(caught.value)


def test_wrong_exceptions_in_code() -> None:
    """As every matcher."""
    with pytest.raises(TypeError, match="except must be a matcher or a list of matchers, got 5"):
        init("a", except_=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="any_of needs at least one matcher"):
        init("a", except_=[])
    with pytest.raises(TypeError, match="only has no option 'except_'"):
        only("a", except_="b")


def test_a_name_in_an_exception_is_looked_at() -> None:
    """One that no tool has excepts nothing, and one of the file is known to it."""
    rules = parse_rules(
        "unknown_tools: refuse\ncontracts:\n  - {template: init, args: [a], except: ['b|c', d]}\n"
    )

    assert [warning.message for warning in rules.warnings] == [
        "no tool is called 'b|c': several tools are {any_of: [A, B]}"
    ]
    assert Session.from_rules(rules).reserve("d").allowed
