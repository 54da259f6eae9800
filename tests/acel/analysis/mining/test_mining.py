"""Contracts that recorded sessions suggest: what was planted is found, and what is chance is not."""

from __future__ import annotations

import random
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis.mining.mine import Mined, mine
from openbox_agentrt.acel.analysis.mining.recorded_sessions import Recorded
from openbox_agentrt.acel.contracts.spec import build_contract
from openbox_agentrt.acel.events import ToolCallEvent


def session(name: str, *calls: tuple[str, dict[str, Any]]) -> Recorded:
    return Recorded(name=name, calls=tuple(ToolCallEvent(tool, args, ts=0.0) for tool, args in calls))


def booking(seed: int, *, looks: bool = True) -> Recorded:
    """Reservations are looked at before they are cancelled, each by itself; the rest is chance."""
    random_ = random.Random(seed)
    calls: list[tuple[str, dict[str, Any]]] = []
    for _ in range(random_.randrange(1, 4)):
        number = f"r-{random_.randrange(900)}"
        calls += [("look", {"reservation": number})] * looks
        calls += [("cancel", {"reservation": number})] * (random_.random() < 0.6)
        calls += [("chat", {"text": "hello"})] * (random_.random() < 0.7)
    random_.shuffle(calls) if not looks else None
    return session(f"session {seed}", *calls)


def said(found: Mined) -> dict[str, Any]:
    return {
        f"{s.contract['template']} {s.contract['args']} {s.contract.get('key')}": s for s in found.suggestions
    }


CHAT: list[tuple[str, dict[str, Any]]] = [("chat", {}), ("chat", {})]
PLANTED = "must_precede ['look', 'cancel'] reservation"


def test_what_is_planted_is_found() -> None:
    """The keyed precedence is found, and the plain one that follows from it is not told again."""
    found = mine([booking(seed) for seed in range(60)], effects=["cancel"])

    assert PLANTED in said(found)
    assert "must_precede ['look', 'cancel'] None" not in said(found)
    assert said(found)[PLANTED].refused == 0
    assert said(found)[PLANTED].kept_back == 12


@pytest.mark.parametrize(
    ("tool", "argument"),
    [("", "x"), ("look*", "x"), ("?", "x"), ("y", ""), ("y", "a.b"), ("y", "*"), ("y", "$subject")],
)
def test_nothing_is_suggested_about_names_that_rules_read_otherwise(tool: str, argument: str) -> None:
    """A pattern over names, a path, all arguments: a contract would be about others, or cannot be written."""
    sessions = []
    for number in range(20):
        args = {"id": number, argument: f"k-{number}"}
        sessions.append(session(str(number), ("look", args), ("cancel", args), (tool, args), (tool, args)))
    found = mine(sessions)

    assert "must_precede ['look', 'cancel'] id" in said(found)
    for suggestion in found.suggestions:
        build_contract(suggestion.contract)
        assert tool == "y" or tool not in suggestion.contract["args"]
        assert suggestion.contract.get("key", "id") in ("id", "x")
        assert suggestion.refused == 0


def test_each_suggestion_only_watches_and_refuses_nothing_that_it_was_learnt_from() -> None:
    """In force, none of them would have broken a session."""
    sessions = [booking(seed) for seed in range(40)]

    for suggestion in mine(sessions).suggestions:
        assert suggestion.contract["mode"] == "shadow"
        contract = build_contract(suggestion.contract)
        learnt = [each for place, each in enumerate(sessions) if place % 5 != 4]
        for recorded in learnt:
            assert not Session(contracts=[contract], halt_on_violation=False).replay(recorded.calls)


def test_a_counter_example_lowers_the_confidence_and_is_shown() -> None:
    """Asked for less than always, it is suggested with where it did not hold."""
    sessions = [booking(seed) for seed in range(40)]
    wrong = session("the odd one", ("cancel", {"reservation": "r-1"}), ("look", {"reservation": "r-1"}))

    assert PLANTED not in said(mine([wrong, *sessions]))
    suggestion = said(mine([wrong, *sessions], confidence=0.9))[PLANTED]
    assert suggestion.counter == ("the odd one",)
    assert suggestion.confidence < 1
    assert "not in the odd one" in suggestion.contract["description"]


def test_what_was_kept_back_can_say_no() -> None:
    """A suggestion that sessions kept back break says how many."""
    sessions = [booking(seed) for seed in range(50)]
    sessions[4::5] = [
        session(f"back {place}", ("cancel", {"reservation": "r-1"})) for place in range(len(sessions[4::5]))
    ]

    assert said(mine(sessions))[PLANTED].refused == 10


@pytest.mark.parametrize(
    ("sessions", "expected"),
    [
        pytest.param(
            [
                session(str(n), ("pay", {"amount": 10 * (n % 5 + 1)}), ("pay", {"amount": 10}))
                for n in range(9)
            ],
            "at_most_total ['pay', 'amount', 60] None",
            id="a sum",
        ),
        pytest.param(
            [session(str(n), *[("mail", {"to": f"x{n}"})] * (n % 3 + 1)) for n in range(20)],
            "max_distinct ['mail', 'to', 1] None",
            id="one recipient",
        ),
        pytest.param(
            [session(str(n), ("prod" if n % 2 else "test", {}), ("read", {})) for n in range(30)],
            "mutually_exclusive ['prod', 'test'] None",
            id="one of two",
        ),
        pytest.param(
            [
                session(str(n), *CHAT[: n % 2], ("open", {}), *CHAT[: n % 3], ("close", {}), *CHAT)
                for n in range(24)
            ],
            "response ['open', 'close'] None",
            id="an answer",
        ),
        pytest.param(
            [session(str(n), ("write", {}), ("sign", {}), ("read", {})) for n in range(9)],
            "never_after ['write', 'sign'] None",
            id="an end",
        ),
        pytest.param(
            [session(str(n), ("pay", {}), ("read", {})) for n in range(9)],
            "at_most_n_times ['pay', 1] None",
            id="once",
        ),
    ],
)
def test_each_kind_is_suggested(sessions: list[Recorded], expected: str) -> None:
    """Of each kind of contract, what sessions keep to."""
    assert expected in said(mine(sessions))


def test_too_little_suggests_nothing() -> None:
    """What could have been broken seldom is no contract."""
    assert mine([booking(1), booking(2)], min_support=50).suggestions == ()


def test_a_failed_call_came_before_nothing() -> None:
    """A prerequisite counts where it succeeded, as it does in force."""
    failed = ToolCallEvent("look", {"reservation": "r-1"}, ts=0.0, outcome="failed")
    cancel = ToolCallEvent("cancel", {"reservation": "r-1"}, ts=0.0)
    sessions = [Recorded(name=str(n), calls=(failed, cancel)) for n in range(8)]

    assert all(suggestion.contract["template"] != "must_precede" for suggestion in mine(sessions).suggestions)


def _found_before(place: int, *, asks: str = "id") -> Recorded:
    """Orders are listed, and one of them is cancelled by what the list said."""
    numbers = [f"order-{place}-{n}" for n in range(3)]
    listed = {"orders": [{"id": number, "status": "open"} for number in numbers]}
    calls = [
        ToolCallEvent("list", {"customer": f"c-{place}"}, listed, ts=0.0),
        ToolCallEvent("chat", {"text": "hello"}, {"said": "yes"}, ts=0.0),
        ToolCallEvent("cancel", {asks: numbers[place % 3]}, "done", ts=0.0),
    ]
    return Recorded(name=str(place), calls=tuple(calls), places=tuple(f"log:{place}{n}" for n in range(3)))


def test_where_values_came_from_is_suggested() -> None:
    """An argument whose values stood in results before, at the place where they stood."""
    found = mine([_found_before(place) for place in range(20)], effects=["cancel"])
    (suggestion,) = [s for s in found.suggestions if s.contract["template"] == "came_from"]

    assert suggestion.contract["args"] == ["cancel", "id"]
    assert suggestion.contract["kwargs"] == {"sources": [{"tool": "list", "path": "orders.*.id"}]}
    assert (suggestion.support, suggestion.refused, suggestion.kept_back) == (16, 0, 4)


def _paid(number: int, args: dict[str, Any], said: str, *, after: int = 0) -> Recorded:
    """Record a session of one payment, and what the user said after so many calls."""
    call = ToolCallEvent("pay", args, ts=0.0)
    return Recorded(name=str(number), calls=(call,), prompts=((after, said),))


def test_a_value_that_the_user_named_came_from_the_prompt() -> None:
    """What the user's text names is a source; sessions that were kept back have their prompts too."""
    sessions = [
        _paid(n, {"to": f"account-{n}"}, f"Hello. Please pay account-{n}, it is due.") for n in range(20)
    ]
    (found,) = [
        s for s in mine(sessions, effects=["pay"]).suggestions if s.contract["template"] == "came_from"
    ]

    assert found.contract["kwargs"] == {"sources": ["prompt"]}
    assert (found.support, found.refused, found.kept_back) == (16, 0, 4)


def test_what_any_user_says_is_no_source() -> None:
    """A word that stands in the text of another session too says nothing about where a value came from."""
    sessions = [_paid(n, {"in": "EUR" if n % 2 else "USD"}, "Pay in EUR or USD") for n in range(20)]

    assert all(s.contract["template"] != "came_from" for s in mine(sessions).suggestions)


def test_what_the_user_says_after_a_call_is_no_source_of_it() -> None:
    sessions = [_paid(n, {"to": f"account-{n}"}, f"Now account-{n}", after=1) for n in range(20)]

    assert all(s.contract["template"] != "came_from" for s in mine(sessions).suggestions)


def test_a_value_that_results_have_by_chance_came_from_nowhere() -> None:
    """What the results of any session have says nothing about where a value came from."""
    listed = ToolCallEvent("list", {}, ["EUR", "USD"], ts=0.0)
    paid = [ToolCallEvent("pay", {"currency": "EUR" if n % 2 else "USD"}, ts=0.0) for n in range(20)]
    sessions = [Recorded(name=str(n), calls=(listed, call)) for n, call in enumerate(paid)]

    assert all(s.contract["template"] != "came_from" for s in mine(sessions).suggestions)


def test_a_key_that_two_tools_call_by_different_names_is_found() -> None:
    """The contract names the argument of each."""
    sessions = [
        session(str(n), *[("look", {"id": f"r-{n}"}), ("cancel", {"reservation": f"r-{n}"})] * 2)
        for n in range(20)
    ]
    keys = [s.contract.get("key") for s in mine(sessions, effects=["cancel"]).suggestions]

    assert {"look": "id", "cancel": "reservation"} in keys


def test_a_counter_example_has_its_file_and_line() -> None:
    """Where a suggestion did not hold is found in the recording."""
    odd = Recorded(
        name="odd", calls=(ToolCallEvent("cancel", {"id": "none"}, ts=0.0),), places=("log.jsonl:77",)
    )
    found = mine([odd, *(_found_before(place) for place in range(20))], effects=["cancel"], confidence=0.9)
    (suggestion,) = [s for s in found.suggestions if s.contract["template"] == "came_from"]

    assert suggestion.counter == ("log.jsonl:77",)
    assert "not in log.jsonl:77" in suggestion.contract["description"]


def _refusing(found: Mined, sessions: list[Recorded]) -> list[str]:
    """Name the suggestions that would refuse a session they were learnt from."""
    return [
        str(suggestion.contract["id"])
        for suggestion in found.suggestions
        for recorded in sessions
        if Session(contracts=[build_contract(suggestion.contract)]).replay(recorded.calls)
    ]


def test_a_call_without_the_argument_is_one_that_a_contract_over_it_refuses() -> None:
    """A few values, or a key, are suggested only where every call has the argument."""
    mails = [
        session(str(n), ("look", {"to": f"c-{n}"}), ("look", {}), ("mail", {"to": f"c-{n}"}), ("mail", {}))
        for n in range(8)
    ]
    found = mine(mails)

    assert found.suggestions
    assert _refusing(found, mails) == []
    assert not {"max_distinct", "must_precede"} & {
        s.contract["template"]
        for s in found.suggestions
        if s.contract.get("key") or s.contract["args"][1:2] == ["to"]
    }


def test_a_source_of_an_argument_that_some_calls_lack_allows_them() -> None:
    """Null is as good as nothing; a value that no result names is a counter-example."""
    sessions = [_found_before(place) for place in range(9)]
    for lacking in ({}, {"id": None}):
        more = ToolCallEvent("cancel", lacking, ts=0.0)
        some = [Recorded(name=s.name, calls=(*s.calls, more)) for s in sessions]
        found = mine(some, effects=["cancel"])
        (source,) = [s for s in found.suggestions if s.contract["template"] == "came_from"]

        assert source.contract["kwargs"]["optional"] is True
        assert _refusing(found, some) == []

    odd = Recorded(name="odd", calls=(ToolCallEvent("cancel", {"id": {"of": 1.5}}, ts=0.0),))
    found = mine([odd, *sessions], effects=["cancel"])
    assert all(s.contract["template"] != "came_from" for s in found.suggestions)
