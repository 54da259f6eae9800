"""Rules that cannot bite say so, with their line and how it is written instead."""

from __future__ import annotations

import pytest

from openbox_agentrt.acel.rulesfile import parse_rules


def messages(text: str) -> list[tuple[int | None, str]]:
    return [(warning.line, warning.message) for warning in parse_rules(text).warnings]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Edit|Write", "any_of: [A, B]"),
        ("mcp__memory__.*", "any text is * and not .*"),
        ("mcp__memory__.+", "any text is * and not .*"),
        ("^delete", "no anchors"),
        ("delete$", "no anchors"),
        ("db_[ab]", "brackets are characters here"),
        ("delete_{user,record}", "brackets are characters here"),
        ("pay ", "blanks at its ends"),
        (" pay", "blanks at its ends"),
        ("Bash(rm -rf *)", "{tool: Bash, matches: PATTERN}"),
        ("a, b", "any_of: [A, B]"),
        ("delete\\w+", "no patterns"),
    ],
)
@pytest.mark.parametrize("form", ["'{}'", "{{tool: '{}', matches: x}}", "{{any_of: ['{}', other]}}"])
def test_a_name_that_no_tool_has(name: str, hint: str, form: str) -> None:
    """A matcher as another tool writes it is a name here."""
    text = f"contracts:\n  - template: at_most_n_times\n    args: [{form.format(name)}, 0]\n"

    (found,) = messages(text)

    assert found[0] == 2
    assert found[1].startswith(f"no tool is called {name!r}: ")
    assert hint in found[1]


@pytest.mark.parametrize(
    "name",
    ["pay", "db_*", "get_?", "mcp__memory__*", "mcp__a-b__c.d/e", "ns:tool", "llm_call", "zahle_grün", "*"],
)
def test_a_name_that_a_tool_may_have(name: str) -> None:
    """Nothing is said about what can match."""
    assert messages(f"contracts: [{{template: init, args: ['{name}']}}]") == []


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("a,b", "a comma is part of its name"),
        ("items.x*.id", "* is a whole part of a path"),
        ("items[0].id", "items.0 and not items[0]"),
        ("$.id", "begins with the name of an argument"),
        ("a/b", "separated by points"),
        ("id ", "blanks at its ends"),
    ],
)
@pytest.mark.parametrize(
    "spec",
    [
        "{{template: init, args: [a], key: '{}'}}",
        "{{template: init, args: [a], kwargs: {{key: '{}'}}}}",
        "{{template: at_most_total, args: [a, '{}', 5]}}",
        "{{template: max_distinct, args: [a], kwargs: {{field: '{}', n: 5}}}}",
        "{{template: init, args: [{{tool: a, matches: b, field: '{}'}}]}}",
        "{{template: init, args: [{{any_of: [{{tool: a, matches: b, field: '{}'}}]}}]}}",
    ],
    ids=["key", "key in kwargs", "amount", "distinct", "pattern", "any_of"],
)
def test_a_path_that_no_argument_has(spec: str, path: str, hint: str) -> None:
    """A limit per customer whose key is in no call refuses everything, and a pattern finds nothing."""
    (found,) = messages(f"contracts:\n  - {spec.format(path)}\n")

    assert found[0] == 2
    assert f"{path!r} is in no call" in found[1]
    assert hint in found[1]


@pytest.mark.parametrize(
    "spec",
    [
        "{template: came_from, args: [a, f, [prompt, {tool: b, path: 'items[0].id'}]]}",
        "{template: keeps_out, args: [a, f, {tool: b, path: 'items[0].id'}]}",
    ],
)
def test_a_path_that_no_result_has(spec: str) -> None:
    """It vouches for nothing, and keeps nothing out."""
    (found,) = messages(f"contracts:\n  - {spec}\n")

    assert found[0] == 2
    assert "path 'items[0].id' is in no result: a position in a list is written items.0" in found[1]


def test_a_path_that_an_argument_may_have() -> None:
    """Names with blanks inside, dashes and digits are fine."""
    for path in ("id", "customer.id", "items.0.amount", "Customer Id", "x-y.z_1"):
        assert messages(f"contracts: [{{template: init, args: [a], key: '{path}'}}]") == []


def test_an_option_that_says_nothing() -> None:
    """A key that was left out in the middle of an edit makes one budget for everybody."""
    text = "contracts:\n  - template: at_most_n_times\n    args: [pay, 1]\n    key:\n    within: ~\n"

    assert messages(text) == [
        (4, "'key' is empty and says nothing"),
        (5, "'within' is empty and says nothing"),
    ]
    inner = "contracts:\n  - template: at_most_n_times\n    args: [pay, 1]\n    kwargs: {key: ~}\n"
    assert messages(inner) == [(4, "'key' is empty and says nothing")]


@pytest.mark.parametrize(
    ("state", "spec", "message"),
    [
        ("{}", "args: [pay, open, true]", "state entry 'open' is not in 'state'"),
        (
            "{opened: 1}",
            "args: [pay], kwargs: {key: open, value: true}",
            "state entry 'open' is not in 'state'",
        ),
        ("{open: true}", "args: [pay, open, true], key: customer", "state entry 'open' is no mapping"),
        ("{open: false}", "args: [pay, open, true]", None),
        ("{open: {}}", "args: [pay, open, true], key: customer", None),
        ("{open: false}", "args: [pay], kwargs: {key: open, value: true}", None),
    ],
)
def test_a_state_entry_that_nobody_sets(state: str, spec: str, message: str | None) -> None:
    """A rules file sets entries at the beginning only."""
    found = messages(f"state: {state}\ncontracts:\n  - {{template: requires_state, {spec}}}\n")

    assert [said.startswith(message) for _, said in found if message] == [True] * (message is not None)
    assert len(found) == (message is not None)


def test_a_group_that_is_used_twice() -> None:
    """Its contracts count every call once, and are reported twice."""
    text = "groups: {g: [{template: init, args: [a]}]}\ncontracts:\n  - group: g\n  - group: g\n"

    assert messages(text) == [(4, "group 'g' is used twice")]


def test_a_tool_that_is_not_allowed_anyway() -> None:
    """What a contract says of it can never matter, and what has to follow can never come."""
    text = (
        "only: [pay, 'get_*', {tool: Bash, matches: ls}]\n"
        "contracts:\n"
        "  - {template: response, args: [pay, notify]}\n"
        "  - {template: never_after, args: [get_x, Bash]}\n"
        "  - {template: at_most_n_times, args: ['noti*', 1]}\n"
        "  - {template: init, args: [pay], except: [llm_call]}\n"
    )

    assert messages(text) == [(3, "tool 'notify' is not among those of 'only'")]
