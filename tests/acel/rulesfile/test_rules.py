"""Rules files: what is understood, and what is refused, with its line."""

import contextlib
import json
import pickle
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import Session, never
from openbox_agentrt.acel.contracts.registry import TEMPLATES
from openbox_agentrt.acel.events import LIFECYCLE
from openbox_agentrt.acel.rulesfile import ConfigError, Rules, parse_rules, read_rules
from openbox_agentrt.acel.rulesfile.document import Format
from tests.acel.rulesfile.schema import rules_schema

PUBLISHED = json.loads(
    resources.files("openbox_agentrt.acel.rulesfile").joinpath("rules.schema.json").read_text("utf-8")
)
SCHEMA = jsonschema.Draft202012Validator(PUBLISHED)


def one(spec: str) -> str:
    return f"contracts:\n  - {spec}\n"


VALID = {
    "must_precede": one("{template: must_precede, args: [backup, delete]}"),
    "by name": one("{template: must_precede, kwargs: {earlier: backup, later: delete}}"),
    "half by name": one("{template: must_precede, args: [backup], kwargs: {later: delete}}"),
    "at_most_n_times": one(
        "{template: at_most_n_times, args: [pay], kwargs: {n: 1, refund_on_failure: true}}"
    ),
    "at_most_in_flight": one("{template: at_most_in_flight, args: [pay, 1], within: 60}"),
    "since": one("{template: must_precede, args: [confirm, pay], since: user_prompt}"),
    "since by name": one(
        "{template: cannot_follow_without, args: [a, b], kwargs: {since: {any_of: [c, d]}}}"
    ),
    "estimate": one("{template: at_most_total, args: [llm_call, total_tokens, 9], estimate: 5}"),
    "a line of words": one("{template: only, args: [{tool: sh, matches: ls, line: true}]}"),
    "requires": one('{template: requires, args: [pay], check: "args.amount <= 500"}'),
    "requires by position": one('{template: requires, args: [pay, "args.amount <= 500"]}'),
    "requires by name": one('{template: requires, kwargs: {tool: pay, check: "args.amount <= 500"}}'),
    "when": one('{template: at_most_n_times, args: [pay, 1], when: "args.amount > 100"}'),
    "when among the arguments": one('{template: never, args: [pay], kwargs: {when: "args.amount > 100"}}'),
    "when at the end": one('{template: existence, args: [report], when: "session.refund > 0"}'),
    "facts": "facts:\n- {tool: [find, get], as: order, key: result.id, fold: case, values: {a: b.*.c}}\n"
    + one('{template: requires, args: [pay], check: "facts.order[args.id].a.size() > 0"}'),
    "a fact without a key": "facts: [{tool: find, as: customer, values: {id: result}}]\n"
    + one('{template: requires, args: [pay], check: "facts.customer.id == args.customer"}'),
    "facts of a contract": one(
        '{template: requires, args: [pay], check: "args.id in facts.order",'
        " facts: [{tool: get, as: order, key: id}]}"
    ),
    "a ban": one("{template: at_most_n_times, args: [pay, 0]}"),
    "at_most_total": one("{template: at_most_total, args: [pay, payment.amount], kwargs: {limit: 0.3}}"),
    "never_after": one("{template: never_after, args: [send, read]}"),
    "required_before_session_end": one("{template: required_before_session_end, args: [log_out]}"),
    "cannot_follow_without": one("{template: cannot_follow_without, args: [pay, verify]}"),
    "mutually_exclusive": one("{template: mutually_exclusive, args: [prod, test]}"),
    "rate_limit": one("{template: rate_limit, args: [pay, 3, 60]}"),
    "response": one("{template: response, args: [open, close]}"),
    "response within": one("{template: response, args: [open, close, 60]}"),
    "alternate_precedence": one("{template: alternate_precedence, args: [a, b], kwargs: {saving: false}}"),
    "chain_precedence": one("{template: chain_precedence, args: [a, b]}"),
    "existence": one("{template: existence, args: [a]}"),
    "existence twice": one("{template: existence, args: [a, 2]}"),
    "init": one("{template: init, args: [a]}"),
    "max_distinct": one("{template: max_distinct, args: [send, to, 3]}"),
    "requires_state": one("{template: requires_state, args: [pay, authenticated, true]}"),
    "requires_state by key": one(
        "{template: requires_state, args: [pay], kwargs: {key: role, value: admin}}"
    ),
    "requires_state per customer": one(
        "{template: requires_state, args: [pay], kwargs: {key: role, value: null}, key: customer.id}"
    ),
    "requires_state and option": one(
        "{template: requires_state, args: [pay], kwargs: {key: customer, state_key: role, value: 1}}"
    ),
    "came_from": one(
        "{template: came_from, args: [pay, to], kwargs: {sources: [prompt, {tool: contacts, path: '*.iban'},"
        " {tool: {tool: read, matches: bill}, path: '*.body', named: true}, {values: [DE02, 7]}],"
        " match: exact, optional: true}, fold: case, within: 60}"
    ),
    "came_from by host": one("{template: came_from, args: [get, url, [prompt]], kwargs: {match: host}}"),
    "keeps_out": one("{template: keeps_out, args: [send, '*', {tool: get_user, path: passport}]}"),
    "never": one("{template: never, args: [wipe]}"),
    "only": one("{template: only, args: [{any_of: [find, refund]}], mode: shadow}"),
    "only these": "only: [find, 'mcp__files__*', {tool: Bash, matches: ^ls}]\n",
    "only these and more": "only: [find, refund]\n" + one("{template: must_precede, args: [find, refund]}"),
    "no unknown tools": "unknown_tools: refuse\n" + one("{template: must_precede, args: [find, refund]}"),
    "unknown tools": "unknown_tools: allow\n" + one("{template: init, args: [a]}"),
    "not": one("{template: never, args: [{not: {tool: Bash, matches: '^(ls|cat) ', field: command}}]}"),
    "options": one(
        "{template: must_precede, args: [a, b], id: r1, description: why, severity: high, mode: shadow,"
        " remedy: ask, on_violation: halt, key: customer.id, within: 60}"
    ),
    "options in kwargs": one("{template: must_precede, args: [a, b], kwargs: {key: c, within: 1.5, id: r1}}"),
    "glob": one('{template: never_after, args: ["db_*", read]}'),
    "matcher": one(
        "{template: must_precede, args: [{tool: Bash, matches: pytest}, {tool: Bash, matches: commit}]}"
    ),
    "field of several values": one("{template: at_most_total, args: [a, 'items.*.amount', 5]}"),
    "matcher with a field": one("{template: init, args: [{tool: Write, matches: env$, field: file.path}]}"),
    "any_of": one('{template: init, args: [{any_of: [a, "b_*", {tool: c, matches: d}, {any_of: [e]}]}]}'),
    "group": "groups: {g: [{template: init, args: [a]}]}\ncontracts: [{group: g}, {group: g}]\n",
    "empty on purpose": "allow_empty: true\n",
    "empty list on purpose": "allow_empty: true\ncontracts: []\n",
    "everything else": "$schema: x\ndescription: d\nstate: {a: [1, {b: null}]}\ninitial_state: {}\n"
    + one("{template: init, args: [a]}"),
    "merge key": (
        "contracts:\n"
        "  - &first {template: never_after, args: [a, b], severity: low}\n"
        "  - {<<: *first, args: [c, d]}\n"
        "  - {<<: [{severity: high}, *first], args: [e, f]}\n"
    ),
}

INVALID = {
    "nothing": ("", 1, "there are no contracts"),
    "no contracts": ("contracts: []\n", 1, "there are no contracts; if that is meant, say allow_empty: true"),
    "only groups": ("groups: {g: [{template: init, args: [a]}]}\n", 1, "there are no contracts"),
    "list": ("- a\n", 1, "top level must be a mapping, got list"),
    "unknown key": ("state: {}\ncontract: []\n", 2, "has an unknown key 'contract'"),
    "contracts is text": ("contracts: nope\n", 1, "'contracts' must be a list, got text"),
    "groups is a list": ("groups: [a]\n", 1, "'groups' must be a mapping, got a list"),
    "group is text": ("groups:\n  g: nope\n", 2, "groups['g'] must be a list, got text"),
    "state is a list": ("state: [a]\n", 1, "'state' must be a mapping, got a list"),
    "allow_empty is text": ("allow_empty: 'yes'\n", 1, "'allow_empty' must be true or false, got text"),
    "check of another template": (
        one("{template: never, args: [a], check: 'true'}"),
        2,
        "never has no 'check'",
    ),
    "no check": (one("{template: requires, args: [a]}"), 2, "requires needs 'check'"),
    "check twice": (
        one("{template: requires, args: [a, 'true'], check: 'true'}"),
        2,
        "'check' is given twice",
    ),
    "check is a number": (one("{template: requires, args: [a], check: 5}"), 2, "must be text, got a whole"),
    "check by key": (one("{template: requires, args: [a], check: 'true', key: b}"), 2, "has no option 'key'"),
    "a fact without a tool": (
        "facts: [{as: order}]\n" + one("{template: never, args: [a]}"),
        1,
        "has no 'tool'",
    ),
    "a fact of a number": (
        "facts: [{tool: 5, as: a}]\n" + one("{template: never, args: [a]}"),
        1,
        "must be text",
    ),
    "a fact that folds nothing": (
        "facts: [{tool: get, as: a, fold: case}]\n" + one("{template: never, args: [a]}"),
        1,
        "fold needs a key",
    ),
    "a fact with a blank in its name": (
        "facts: [{tool: get, as: an order}]\n" + one("{template: never, args: [a]}"),
        1,
        "letters, digits and _",
    ),
    "a value that is no path": (
        "facts:\n- tool: get\n  as: order\n  values: {a: b..c}\n" + one("{template: never, args: [a]}"),
        2,
        "a field must be",
    ),
    "contract is a number": (one("5"), 2, "contracts[0]: must be a mapping, got a whole number"),
    "contract is nothing": (one("~"), 2, "contracts[0]: must be a mapping, got null"),
    "no template": (one("{args: [a]}"), 2, "contracts[0]: has no 'template'"),
    "unknown template": (
        one("{template: must_preceed, args: [a, b]}"),
        2,
        "contracts[0].template: unknown template 'must_preceed', did you mean must_precede",
    ),
    "template is a number": (
        one("{template: 5}"),
        2,
        "contracts[0].template: must be text, got a whole number",
    ),
    "unknown key in a contract": (
        "contracts:\n  - template: init\n    args: [a]\n    arg: 5\n",
        4,
        "contracts[0]: has an unknown key 'arg'",
    ),
    "sources is text": (
        one("{template: came_from, args: [a, f, prompt]}"),
        2,
        "contracts[0].args[2]: must be a list, got text",
    ),
    "no sources": (one("{template: came_from, args: [a, f, []]}"), 2, "sources must name one or more"),
    "unknown source": (
        one("{template: came_from, args: [a, f, [user]]}"),
        2,
        "contracts[0].args[2][0]: must be prompt, {tool, path, named} or {values}, got 'user'",
    ),
    "a source with another key": (
        one("{template: came_from, args: [a, f, [{tool: b, field: c}]]}"),
        2,
        "contracts[0].args[2][0]: has an unknown key 'field'",
    ),
    "a source of no values": (
        one("{template: came_from, args: [a, f, [{values: []}]]}"),
        2,
        "a source of values must list one or more",
    ),
    "another match": (
        one("{template: came_from, args: [a, f, [prompt]], kwargs: {match: url}}"),
        2,
        "match must be one of exact, host, domain, links, got 'url'",
    ),
    "came_from by key": (
        one("{template: came_from, args: [a, f, [prompt]], key: k}"),
        2,
        "came_from has no option 'key'",
    ),
    "secrets of the prompt": (
        one("{template: keeps_out, args: [a, f, prompt]}"),
        2,
        "secrets must be named by a tool and a path",
    ),
    "args is text": (one("{template: init, args: a}"), 2, "contracts[0].args: must be a list, got text"),
    "too few": (one("{template: must_precede, args: [a]}"), 2, "contracts[0]: must_precede needs 'later'"),
    "too many": (
        one("{template: init, args: [a, b]}"),
        2,
        "contracts[0].args: init takes at most 1 arguments, got 2",
    ),
    "twice": (
        one("{template: must_precede, args: [a, b], kwargs: {later: c}}"),
        2,
        "contracts[0].kwargs.later: 'later' is given twice",
    ),
    "option twice": (
        one("{template: init, args: [a], kwargs: {within: 1}, within: 1}"),
        2,
        "contracts[0].within: 'within' is given twice",
    ),
    "within twice": (
        one("{template: response, args: [a, b, 5], within: 5}"),
        2,
        "contracts[0].within: 'within' is given twice",
    ),
    "key twice": (
        one("{template: requires_state, args: [a, role, 1], kwargs: {key: c}, key: d}"),
        2,
        "contracts[0].key: 'key' is given twice",
    ),
    "key needed": (
        one("{template: requires_state, args: [a]}"),
        2,
        "contracts[0]: requires_state needs 'key'",
    ),
    "unknown argument": (
        one("{template: at_most_n_times, args: [a], kwargs: {m: 1}}"),
        2,
        "contracts[0].kwargs.m: at_most_n_times has no argument 'm', it takes tool, n, refund_on_failure",
    ),
    "clock": (
        one("{template: rate_limit, args: [a, 1, 5], kwargs: {clock: x}}"),
        2,
        "contracts[0].kwargs.clock: rate_limit has no argument 'clock'",
    ),
    "rate limit with within": (
        one("{template: rate_limit, args: [a, 1, 5], within: 5}"),
        2,
        "rate_limit has no option 'within'",
    ),
    "count is text": (
        "contracts:\n  - template: at_most_n_times\n    args: [a]\n    kwargs:\n      n: '1'\n",
        5,
        "contracts[0].kwargs.n: must be a whole number, got text",
    ),
    "count is a boolean": (
        one("{template: at_most_n_times, args: [a, true]}"),
        2,
        "must be a whole number, got a boolean",
    ),
    "count is negative": (one("{template: at_most_n_times, args: [a, -1]}"), 2, "n must be non-negative"),
    "count is zero": (one("{template: existence, args: [a, 0]}"), 2, "n must be at least 1"),
    "window is zero": (one("{template: rate_limit, args: [a, 1, 0]}"), 2, "window_seconds must be positive"),
    "limit is text": (one("{template: at_most_total, args: [a, b, '5']}"), 2, "must be a number, got text"),
    "limit is negative": (
        one("{template: at_most_total, args: [a, b, -5]}"),
        2,
        "limit must be non-negative",
    ),
    "flag is text": (
        one("{template: at_most_n_times, args: [a, 1], kwargs: {refund_on_failure: 'no'}}"),
        2,
        "must be true or false, got text",
    ),
    "field is a number": (
        one("{template: at_most_total, args: [a, 5, 5]}"),
        2,
        "contracts[0].args[1]: must be text",
    ),
    "field is no path": (
        one("{template: at_most_total, args: [a, b..c, 5]}"),
        2,
        "a field must be a name or a dotted path",
    ),
    "state value is a list": (
        one("{template: requires_state, args: [a, role, [1]]}"),
        2,
        "must be text, a number, true, false or null, got a list",
    ),
    "severity": (
        one("{template: init, args: [a], severity: awful}"),
        2,
        "contracts[0].severity: must be one of info, low, medium, high, critical, got 'awful'",
    ),
    "mode": (
        one("{template: init, args: [a], mode: off_}"),
        2,
        "contracts[0].mode: must be one of enforce, shadow, got 'off_'",
    ),
    "within is negative": (one("{template: init, args: [a], within: -1}"), 2, "within must be positive"),
    "within is text": (
        one("{template: init, args: [a], within: '1'}"),
        2,
        "contracts[0].within: must be a number, got text",
    ),
    "key is no path": (
        one("{template: init, args: [a], key: .a}"),
        2,
        "a field must be a name or a dotted path",
    ),
    "key of several values": (
        one("{template: init, args: [a], key: 'items.*.id'}"),
        2,
        "a key must name one value, got 'items.*.id'",
    ),
    "id is empty": (one("{template: init, args: [a], id: ''}"), 2, "id must be text"),
    "tool is a number": (
        one("{template: init, args: [5]}"),
        2,
        "contracts[0].args[0]: must be the name of a tool or a matcher, got a whole number",
    ),
    "tool is empty": (
        one("{template: init, args: ['']}"),
        2,
        "contracts[0].args[0]: a tool must be named, got ''",
    ),
    "matcher without a pattern": (
        one("{template: init, args: [{tool: a}]}"),
        2,
        "a matcher must have 'tool' and 'matches' (optionally 'field'), got ['tool']",
    ),
    "matcher with more": (
        one("{template: init, args: [{tool: a, matches: b, flags: i}]}"),
        2,
        "contracts[0].args[0]: has an unknown key 'flags'",
    ),
    "matcher of a number": (
        one("{template: init, args: [{tool: a, matches: 5}]}"),
        2,
        "contracts[0].args[0].matches: must be text, got a whole number",
    ),
    "matcher without a tool name": (
        one("{template: init, args: [{tool: '', matches: b}]}"),
        2,
        "a tool must be a name",
    ),
    "any_of nothing": (one("{template: init, args: [{any_of: []}]}"), 2, "any_of needs at least one matcher"),
    "any_of and more": (
        one("{template: init, args: [{any_of: [a], tool: b}]}"),
        2,
        "has an unknown key 'tool'",
    ),
    "any_of a number": (
        one("{template: init, args: [{any_of: [a, 5]}]}"),
        2,
        "contracts[0].args[0].any_of[1]: must be the name",
    ),
    "never within": (one("{template: never, args: [a], within: 5}"), 2, "has no option 'within'"),
    "only by key": (one("{template: only, args: [a], key: b}"), 2, "only has no option 'key'"),
    "only nothing": ("only: []\n", 1, "only: there are no tools, so that nothing is allowed"),
    "only text": ("only: a\n", 1, "'only' must be a list, got text"),
    "only a number": ("only: [a, 5]\n", 1, "must be the name of a tool or a matcher, got a whole number"),
    "unknown tools are a list": ("unknown_tools: [a]\n", 1, "'unknown_tools' must be text, got a list"),
    "unknown tools are something": (
        "unknown_tools: deny\n" + one("{template: init, args: [a]}"),
        1,
        "unknown_tools: must be one of allow, refuse, got 'deny'",
    ),
    "only and unknown tools": (
        "only: [a]\nunknown_tools: refuse\n",
        2,
        "unknown_tools: 'only' says already which tools there are",
    ),
    "not a name": (one("{template: never, args: [{not: a}]}"), 2, "args[0].not: must be a mapping, got text"),
    "not and more": (
        one("{template: never, args: [{not: {tool: a, matches: b}, tool: a}]}"),
        2,
        "has an unknown key 'tool'",
    ),
    "group with more": (
        "groups: {g: []}\ncontracts:\n  - {group: g, mode: shadow}\n",
        3,
        "contracts[0]: has an unknown key 'mode'",
    ),
    "group is a number": (
        "contracts:\n  - {group: 5}\n",
        2,
        "contracts[0].group: must be text, got a whole number",
    ),
    "bad contract in a group": (
        "groups:\n  g:\n    - {template: init, args: [a]}\n    - {template: nope}\n"
        + one("{template: init, args: [a]}"),
        4,
        "groups['g'][1].template: unknown template 'nope'",
    ),
}

# What a schema cannot say.
INVALID_BEYOND_SHAPE = {
    "pattern": (
        one("{template: init, args: [{tool: a, matches: '('}]}"),
        2,
        "pattern '(' cannot be compiled",
    ),
    "look-around": (one("{template: init, args: [{tool: a, matches: '(?=b)'}]}"), 2, "cannot be compiled"),
    "unknown group": (one("{group: x}"), 2, "contracts[0]: unknown group 'x', declared are: none"),
    "id twice": (
        "contracts:\n  - {template: init, args: [a], id: r}\n  - {template: init, args: [b], id: r}\n",
        3,
        "contracts[1]: id 'r' is that of contracts[0] already",
    ),
    "any_of without end": (
        one("{template: init, args: [" + "{any_of: [" * 9 + "a" + "]}" * 9 + "]}"),
        2,
        "any_of is nested too deeply",
    ),
    "no tools to know": (
        "unknown_tools: refuse\nallow_empty: true\n",
        1,
        "unknown_tools: the file names no tool, so that nothing is allowed",
    ),
    "condition that is none": (
        "contracts:\n- template: requires\n  args: [pay]\n  check: args.amount <=\n",
        4,
        "contracts[0].check: Syntax error",
    ),
    "unknown name": (
        "contracts:\n- template: never\n  args: [pay]\n  when: arg.amount > 5\n",
        4,
        "contracts[0].when: unknown name 'arg.amount', there are args, facts, now, session, subject",
    ),
    "wrong type": (one("{template: requires, args: [a], check: \"1 + 'a' > 2\"}"), 2, "no matching overload"),
    "no answer": (one('{template: requires, args: [a], check: "size(args)"}'), 2, "is of type int"),
    "unknown fact": (one('{template: requires, args: [a], check: "facts.b.c"}'), 2, "unknown fact 'b'"),
    "unknown value": (
        "facts: [{tool: get, as: order, key: id, values: {status: status}}]\n"
        + one('{template: requires, args: [a], check: "facts.order[args.id].state == 1"}'),
        3,
        "fact 'order' has no value 'state', it has status",
    ),
    "a fact twice": (
        "facts: [{tool: get, as: order}, {tool: find, as: order}]\n" + one("{template: never, args: [a]}"),
        1,
        "facts[1].as: fact 'order' is there twice",
    ),
    "a fact of a pattern": (
        'facts: [{tool: "get_*", as: order}]\n' + one("{template: never, args: [a]}"),
        1,
        "names of tools, not patterns",
    ),
    "a key of many": (
        'facts: [{tool: get, as: order, key: "a.*"}]\n' + one("{template: never, args: [a]}"),
        1,
        "a key must name one value",
    ),
    "arguments at the end": (
        one('{template: existence, args: [a], when: "args.b"}'),
        2,
        "when is asked at the end for existence, so it cannot read args",
    ),
    "window too large": (one("{template: rate_limit, args: [a, 999999999, 60]}"), 2, "n must be at most"),
}


@pytest.mark.parametrize("name", VALID)
def test_what_is_understood(name: str) -> None:
    """Every template, in every way of writing it."""
    rules = parse_rules(VALID[name], name="rules.yaml")

    assert isinstance(rules, Rules)
    assert len(rules.rules_hash) == 64
    assert "empty" in name or rules.contracts


def test_the_state_is_part_of_what_rules_mean() -> None:
    """By value, in any order, and only where there is one."""

    def hash_of(state: str) -> str:
        return parse_rules(f"{state}{one('{template: requires_state, args: [pay, open, true]}')}").rules_hash

    assert hash_of("") == hash_of("state: {}\n")
    assert hash_of("state: {open: true, n: 1, of: [2.50]}\n") == hash_of(
        "initial_state: {of: [2.5], n: 1.0, open: true}\n"
    )
    assert parse_rules(f"state: {{open: true}}\n{one('{template: init, args: [a]}')}").hashes[1:] == (
        *parse_rules(one("{template: init, args: [a]}")).hashes,
    )
    assert len({hash_of(""), hash_of("state: {open: true}\n"), hash_of("state: {open: false}\n")}) == 3


def test_every_template_is_among_the_examples() -> None:
    """A template that is added needs an example here."""
    assert TEMPLATES.keys() <= VALID.keys()


@pytest.mark.parametrize("name", [*INVALID, *INVALID_BEYOND_SHAPE])
def test_what_is_refused(name: str) -> None:
    """Everything that is not understood is an error in one line, with its place."""
    text, line, message = {**INVALID, **INVALID_BEYOND_SHAPE}[name]

    with pytest.raises(ConfigError) as caught:
        parse_rules(text, name="rules.yaml")

    assert str(caught.value).startswith("rules.yaml:") or line is None
    assert message in str(caught.value)
    assert caught.value.line == (line if text else None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", VALID)
def test_the_schema_accepts_what_is_understood(name: str) -> None:
    """An editor shows no error where there is none."""
    SCHEMA.validate(yaml.safe_load(VALID[name]))


@pytest.mark.parametrize("name", INVALID)
def test_the_schema_refuses_what_is_refused(name: str) -> None:
    """An editor shows what is wrong before the file is used."""
    assert not SCHEMA.is_valid(yaml.safe_load(INVALID[name][0]))


def test_the_published_schema_is_the_one_of_the_templates() -> None:
    """A parameter that is added appears in the schema, or this fails."""
    jsonschema.Draft202012Validator.check_schema(rules_schema())

    assert rules_schema() == PUBLISHED


TOOL = st.sampled_from(["a", "b_*", "", 5, None]) | st.fixed_dictionaries(
    {"tool": st.sampled_from(["a", ""])},
    optional={"matches": st.sampled_from(["x", 5]), "field": st.just("y")},
)
VALUE = TOOL | st.sampled_from([0, 1, -1, 1.5, True, "text", [], {}])
SPEC = st.fixed_dictionaries(
    {"template": st.sampled_from(sorted(TEMPLATES))},
    optional={
        "args": st.lists(VALUE, max_size=4),
        "kwargs": st.dictionaries(
            st.sampled_from(
                ["n", "later", "a", "b", "limit", "key", "state_key", "value", "within", "saving", "x"]
            ),
            VALUE,
            max_size=3,
        ),
        "key": st.sampled_from(["c", "c.d", ".", None]),
        "within": st.sampled_from([5, 0, "5"]),
        "mode": st.sampled_from(["shadow", "x"]),
        "id": st.sampled_from(["r", ""]),
    },
)


@settings(max_examples=300)
@given(SPEC)
def test_what_is_understood_fits_the_schema(spec: dict[str, Any]) -> None:
    """No file that can be used is refused by an editor."""
    data = {"contracts": [spec]}
    try:
        parse_rules(json.dumps(data), format="json")
    except ConfigError:
        return
    if "key" in spec and spec["key"] is None:
        return  # null is as good as absent, which a schema for people need not say
    SCHEMA.validate(data)


def problem_of(text: str, format: Format) -> str:
    """The documented error as text, or nothing if there is none. Whatever else is raised gets out."""
    try:
        parse_rules(text, format=format, name="f")
    except ConfigError as error:
        return str(error)
    return ""


@given(st.text(max_size=200), st.sampled_from(get_args(Format)))
def test_any_text(text: str, format: Format) -> None:
    """Nothing but the documented error, in one line, comes out of a file of any text."""
    assert "\n" not in problem_of(text, format)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["contracts", "groups", "state", "template", "args", "kwargs", "group", "any_of", "tool"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(ANY)
def test_any_data(data: object) -> None:
    """Whatever shape the data has, there are rules or there is the documented error."""
    assert "\n" not in problem_of(json.dumps(data), "json")


@given(st.binary(max_size=200), st.sampled_from([".yaml", ".json"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str) -> None:
    """The same for files."""
    path = tmp_path_factory.mktemp("any") / f"rules{suffix}"
    path.write_bytes(data)
    with contextlib.suppress(ConfigError):
        read_rules(path)


def test_what_a_file_says() -> None:
    """State, contracts in order with groups in their places, and a hash of the contracts."""
    rules = parse_rules(
        "description: refunds\n"
        "state: {open: true}\n"
        "groups:\n  g: [{template: init, args: [a]}]\n"
        "contracts:\n  - {template: never_after, args: [b, c]}\n  - {group: g}\n"
    )

    assert (rules.description, rules.state) == ("refunds", {"open": True})
    assert [contract.spec for contract in rules.contracts] == ["never_after(b, c)", "init(a)"]
    assert [contract.spec for contract in rules.groups["g"]] == ["init(a)"]
    assert rules.groups["g"][0] is not rules.contracts[1]
    assert rules.warnings == ()


@pytest.mark.parametrize(
    ("text", "allowed", "refused"),
    [
        pytest.param("only: [find, refund]\n", ["find", "refund"], ["wipe", "Find", "find "], id="only"),
        pytest.param("only: ['get_*']\n", ["get_x"], ["got_x"], id="only by a pattern"),
        pytest.param(
            "unknown_tools: refuse\n" + one("{template: never_after, args: [find, {any_of: [pay, sell]}]}"),
            ["find", "pay", "sell"],
            ["wipe", "f\u0456nd"],
            id="unknown tools",
        ),
        pytest.param(
            "only: [find]\n" + one("{template: never_after, args: [find, pay]}"), [], ["pay"], id="both"
        ),
    ],
)
def test_these_tools_and_no_others(text: str, allowed: list[str], refused: list[str]) -> None:
    """Whatever looks like one of them is none; what a governed run is made of always is."""
    session = Session.from_rules(parse_rules(text))

    assert [tool for tool in (*allowed, *refused) if session.reserve(tool).allowed] == allowed
    assert all(session.reserve(event).allowed for event in LIFECYCLE)


def test_only_says_what_there_is() -> None:
    """To the model too."""
    session = Session.from_rules({"only": ["find", "refund"]})

    refusal = session.reserve("wipe").refusal

    assert refusal is not None
    assert refusal.broken[0].describe() == "only(find, refund): needs one of find, refund"
    assert refusal.broken[0].kind == "temporal"


def test_only_takes_part_in_the_hash() -> None:
    """A file that says it is another than one that does not."""
    contract = one("{template: init, args: [a]}")
    hashes = {parse_rules(text + contract).rules_hash for text in ("", "only: [a]\n", "only: [a, b]\n")}

    assert len(hashes) == 3
    assert (
        parse_rules("only: [a]\n" + contract).rules_hash
        == parse_rules("unknown_tools: refuse\n" + contract).rules_hash
    )


def test_a_session_of_all_that_rules_say(tmp_path: Path) -> None:
    """From a file, from what it holds, or from what was read."""
    path = tmp_path / "rules.yaml"
    path.write_text("state: {a: 1, b: 2}\nonly: [x]\n" + one("{template: never, args: [y]}"))

    for rules in (path, str(path), read_rules(path), yaml.safe_load(path.read_text())):
        session = Session.from_rules(rules, state={"b": 3}, contracts=[never("z")], session_id="s")
        assert [contract.spec for contract in session.contracts] == ["never(y)", "only(x)", "never(z)"]
        assert (session.state.snapshot(), session.session_id) == ({"a": 1, "b": 3}, "s")
    with pytest.raises(ConfigError, match="unknown template"):
        Session.from_rules({"contracts": [{"template": "nope"}]})


def test_the_old_name_of_the_state() -> None:
    """Files made for the first versions still work."""
    assert parse_rules("allow_empty: true\ninitial_state: {a: 1}\n").state == {"a": 1}


def test_equal_rules_have_equal_hashes() -> None:
    """However a file is written, the hash is of what it means."""
    first = parse_rules(one("{template: must_precede, args: [a, b]}") + "  - {template: init, args: [c]}\n")
    second = parse_rules(
        json.dumps(
            {
                "groups": {"g": [{"template": "must_precede", "kwargs": {"later": "b", "earlier": "a"}}]},
                "contracts": [{"template": "init", "args": ["c"]}, {"group": "g"}],
            }
        ),
        format="json",
    )

    assert first.rules_hash == second.rules_hash


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param(
            "groups:\n  g:\n    - {template: init, args: [a]}\n" + one("{template: init, args: [b]}"),
            2,
            "group 'g' is never used",
            id="unused group",
        ),
        pytest.param(
            "groups:\n  g: []\ncontracts:\n  - {template: init, args: [b]}\n  - {group: g}\n",
            2,
            "group 'g' is empty",
            id="empty group",
        ),
        pytest.param(
            "state: {}\ninitial_state: {a: 1}\n" + one("{template: init, args: [b]}"),
            2,
            "'initial_state' is ignored, because there is 'state' too",
            id="two states",
        ),
        pytest.param(
            one("{template: init, args: [a]}") + "  - {template: init, args: [a]}\n",
            3,
            "contracts[1] says the same as contracts[0]: init(a)",
            id="the same twice",
        ),
        pytest.param(
            one("{template: at_most_total, args: [a, b, 5]}")
            + "  - {template: at_most_total, args: [a], kwargs: {field: b, limit: 5.0}, id: x}\n",
            3,
            "contracts[1] says the same as contracts[0]: at_most_total(a, b, limit=5.0)",
            id="the same twice in other words",
        ),
        pytest.param(
            one("{template: must_precede, args: [Pay, pay]}"),
            2,
            "name 'pay' differs only in case from 'Pay'",
            id="case",
        ),
        pytest.param(
            one("{template: init, kwargs: {a: {any_of: [pay, pаy, {tool: x, matches: y}]}}}"),
            2,
            "name 'p\\u0430y' mixes letters of several scripts",
            id="look-alike",
        ),
    ],
)
def test_what_is_odd(text: str, line: int, message: str) -> None:
    """What is allowed and probably not meant is told, with its line."""
    warnings = parse_rules(text).warnings

    assert (message, line) in [(warning.message, warning.line) for warning in warnings]


def test_the_error_survives_pickling() -> None:
    """Errors cross process boundaries with their place."""
    error = ConfigError("is wrong", path="f.yaml", line=3, where="contracts[0]")

    copy = pickle.loads(pickle.dumps(error))

    assert str(copy) == "f.yaml:3: contracts[0]: is wrong"
    assert (copy.problem, copy.path, copy.line, copy.where) == ("is wrong", "f.yaml", 3, "contracts[0]")


def test_a_file_is_read(tmp_path: Path) -> None:
    """The name of the file says how it is written."""
    for suffix in (".yaml", ".yml", ".YAML"):
        path = tmp_path / f"rules{suffix}"
        path.write_text(one("{template: init, args: [a]}"))
        assert read_rules(path).name == str(path)
    path = tmp_path / "rules.json"
    path.write_bytes(b'\xef\xbb\xbf{"contracts": [{"template": "init", "args": ["a"]}]}')
    assert len(read_rules(str(path)).contracts) == 1
