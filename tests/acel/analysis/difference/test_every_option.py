"""Every option and every argument of a contract: a change of it is shown by a trace, or said in words."""

from __future__ import annotations

from typing import Any

import pytest

from openbox_agentrt.acel.analysis import Difference, compare
from openbox_agentrt.acel.contracts.parameters import OPTIONS, parameters_of
from openbox_agentrt.acel.contracts.registry import CLASSES
from openbox_agentrt.acel.contracts.spec import CONTRACT
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

PAY = {"template": "at_most_n_times", "args": ["pay", 1], "id": "cap"}
FLEET = {**PAY, "scope": "fleet", "per": "day"}
SPENT = {
    "template": "at_most_total",
    "args": ["pay", "amount", 500],
    "id": "cap",
    "scope": "fleet",
    "per": "day",
}
ASKED = {
    "template": "requires",
    "args": ["pay"],
    "check": 'facts.order[args.id].status == "open"',
    "id": "ask",
}
ORDER = [{"tool": "look", "as": "order", "key": "id", "values": {"status": "status"}}]

# Of each option, a contract, and what is said of it anew.
OF_OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "id": (PAY, {"id": "once"}),
    "description": (PAY, {"description": "pay once"}),
    "remedy": (PAY, {"remedy": "ask a person"}),
    "severity": (PAY, {"severity": "high"}),
    "mode": (PAY, {"mode": "shadow"}),
    "on_violation": (PAY, {"on_violation": "halt"}),
    "key": (PAY, {"key": "customer"}),
    "fold": ({**PAY, "key": "customer"}, {"fold": "case"}),
    "except": (PAY, {"except": {"tool": "pay", "matches": "^0$", "field": "amount"}}),
    "when": (PAY, {"when": "args.amount > 5"}),
    "facts": ({**ASKED, "facts": ORDER}, {"facts": [{**ORDER[0], "values": {"status": "state"}}]}),
    "within": (PAY, {"within": 60}),
    "recheck": (PAY, {"recheck": True}),
    "scope": (PAY, {"scope": "run"}),
    "per": (PAY, {"per": "day"}),
    "tz": ({**PAY, "per": "day"}, {"tz": "Europe/Berlin"}),
    "forever": ({**PAY, "scope": "session"}, {"scope": "fleet", "forever": True}),
    "overshoot": (SPENT, {"overshoot": True}),
    "name": (FLEET, {"name": "payments"}),
}

TOTAL = {"tool": "pay", "field": "amount", "limit": 5}
RATE = {"tool": "pay", "n": 1, "window_seconds": 60}
FROM = {"tool": "send", "field": "to", "sources": [{"tool": "find", "path": "mail"}]}
OUT = {"tool": "send", "field": "body", "source": {"tool": "find", "path": "key"}}
STATE = {"tool": "pay", "state_key": "level", "value": 1}
VALUES = {"tool": "send", "field": "to", "n": 1}
# Of each template, its arguments, and another value of each.
OF_ARGUMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "must_precede": ({"earlier": "a", "later": "b"}, {"earlier": "c", "later": "c", "since": "b"}),
    "at_most_n_times": ({"tool": "a", "n": 1}, {"tool": "c", "n": 2, "refund_on_failure": True}),
    "at_most_total": (
        TOTAL,
        {
            "tool": "c",
            "field": "sum",
            "limit": 6,
            "numeric_text": True,
            "allow_negative": True,
            "refund_on_failure": True,
            "estimate": 3,
        },
    ),
    "never_after": ({"a": "a", "b": "b"}, {"a": "c", "b": "c"}),
    "required_before_session_end": ({"tool": "a"}, {"tool": "c"}),
    "cannot_follow_without": (
        {"action": "a", "prerequisite": "b"},
        {"action": "c", "prerequisite": "c", "since": "a"},
    ),
    "mutually_exclusive": ({"a": "a", "b": "b"}, {"a": "c", "b": "c"}),
    "rate_limit": (RATE, {"tool": "c", "n": 2, "window_seconds": 90, "refund_on_failure": True}),
    "response": ({"a": "a", "b": "b"}, {"a": "c", "b": "c", "within": 60}),
    "alternate_precedence": (
        {"a": "a", "b": "b"},
        {"a": "c", "b": "c", "saving": False, "refund_on_failure": True},
    ),
    "chain_precedence": ({"a": "a", "b": "b"}, {"a": "c", "b": "c"}),
    "existence": ({"a": "a"}, {"a": "c", "n": 2}),
    "init": ({"a": "a"}, {"a": "c"}),
    "max_distinct": (VALUES, {"tool": "c", "field": "cc", "n": 2, "refund_on_failure": True}),
    "requires_state": (STATE, {"tool": "c", "state_key": "open", "value": 2}),
    "requires": ({"tool": "a", "check": "args.n == 1"}, {"tool": "c", "check": "args.n == 2"}),
    "never": ({"tool": "a"}, {"tool": "c"}),
    "only": ({"tools": "a"}, {"tools": "c"}),
    "at_most_in_flight": ({"tool": "a", "n": 1}, {"tool": "c", "n": 2}),
    "came_from": (
        FROM,
        {
            "tool": "c",
            "field": "cc",
            "sources": [{"tool": "find", "path": "name"}],
            "match": "domain",
            "optional": True,
        },
    ),
    "keeps_out": (OUT, {"tool": "c", "field": "head", "source": {"tool": "find", "path": "name"}}),
}
ARGUMENTS = [(template, name) for template, (_, anew) in OF_ARGUMENTS.items() for name in anew]


def rules(contract: dict[str, Any]) -> Rules:
    return parse_rules({"contracts": [contract]})


def is_shown(found: Difference) -> bool:
    """Whether a real session showed where they part, in one direction or the other."""
    return any(trace is not None for trace in (found.stricter, found.looser, found.owed, found.forgiven))


def says(found: Difference, name: str) -> bool:
    """Whether a sentence says that an option changed and that no trace shows it."""
    said = [line for line in found.lines() if line.startswith("no trace shows it: ")]
    return any(f": {name} " in line for line in said)


def test_the_tables_name_every_option_and_argument() -> None:
    """What is declared anew has to be shown or said as well, so it stands here. `accept` is no rule."""
    options = {*OPTIONS, *(CONTRACT.keys() - {"template", "args", "kwargs"})}

    assert options
    assert OF_OPTIONS.keys() == options
    assert OF_ARGUMENTS.keys() == set(CLASSES)
    for template, (_, anew) in OF_ARGUMENTS.items():
        assert anew.keys() == {parameter.name for parameter in parameters_of(template)}


@pytest.mark.parametrize("option", OF_OPTIONS)
def test_a_change_of_an_option_is_shown_or_said(option: str) -> None:
    """It is never nothing, in whichever direction."""
    contract, anew = OF_OPTIONS[option]
    old, new = rules(contract), rules({**contract, **anew})

    for found in (compare(old, new), compare(new, old)):
        assert not found.same
        assert any(f"{option} " in line for line in found.changes.lines())
        assert is_shown(found) or says(found, option)


@pytest.mark.parametrize(("template", "name"), ARGUMENTS)
def test_a_change_of_an_argument_is_shown_or_said(template: str, name: str) -> None:
    """It is never nothing, in whichever direction."""
    given, anew = OF_ARGUMENTS[template]
    options = {"within": anew["within"]} if name == "within" else {}
    changed = given if options else {**given, name: anew[name]}
    old = rules({"template": template, "kwargs": given, "id": "one"})
    new = rules({"template": template, "kwargs": changed, "id": "one", **options})

    for found in (compare(old, new), compare(new, old)):
        assert not found.same
        assert is_shown(found) or says(found, name)


SHOWN_BY_NO_TRACE = {
    "scope": "scope says whose calls count together, and a trace is of one run of one session",
    "recheck": "recheck says whether a call that has waited is judged again, and in a trace none waits",
    "remedy": "remedy is what whoever is refused is told, and decides nothing",
}


@pytest.mark.parametrize("option", SHOWN_BY_NO_TRACE)
def test_what_no_trace_shows_is_one_sentence(option: str) -> None:
    """Nothing is searched for it, and nothing says that both are alike."""
    contract, anew = OF_OPTIONS[option]
    found = compare(rules(contract), rules({**contract, **anew}))

    assert list(found.lines())[1:] == [f"no trace shows it: cap: {SHOWN_BY_NO_TRACE[option]}"]
    assert found.states == 0
    assert found.to_dict()["unshown"] == list(found.changes.unshown)


def test_what_a_trace_shows_is_shown_beside_what_none_does() -> None:
    """Of two changes of one contract, each is told in its way."""
    found = compare(rules(PAY), rules({**PAY, "args": ["pay", 2], "scope": "run"}))

    assert is_shown(found)
    assert says(found, "scope")


@pytest.mark.parametrize("change", [{"args": ["pay", 2]}, {"on_violation": "halt"}])
def test_a_contract_that_only_watches_parts_no_calls(change: dict[str, Any]) -> None:
    """What changes is what is recorded, and that is said."""
    watching = {**PAY, "mode": "shadow"}
    found = compare(rules(watching), rules({**watching, **change}))

    assert [line.split(",")[0] for line in found.lines()][1:] == ["no trace shows it: cap: it only watches"]


def test_a_contract_that_only_watches_is_added_in_words() -> None:
    """The same of one that was not there."""
    found = compare(parse_rules({"allow_empty": True}), rules({**PAY, "mode": "shadow"}))

    assert [line.split(":")[0] for line in found.lines()] == ["added", "no trace shows it"]


def test_another_id_is_another_name_of_the_same_contract() -> None:
    """It is no contract that goes and no contract that comes, also where others stand in the way."""
    old = [PAY, {"template": "existence", "args": ["sign", 1], "id": "sign"}]
    new = [{**old[1], "id": "signed"}, {**PAY, "id": "once"}]
    found = compare(parse_rules({"contracts": old}), parse_rules({"contracts": new}))

    assert [(c.before.name, c.after.name) for c in found.changes.changed] == [
        ("cap", "once"),
        ("sign", "signed"),
    ]
    assert found.changes.added == found.changes.removed == ()
    assert found.undecided == ()
    assert not is_shown(found)
