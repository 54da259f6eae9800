"""Calls that are certain to be let through, by counts alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel import Session, build_contract
from openbox_agentrt.doors.claude_code.clear_by_counts import clear_tools, guarding_roles
from openbox_agentrt.doors.claude_code.history import Calls
from openbox_agentrt.doors.claude_code.rules import HookRules
from openbox_agentrt.doors.claude_code.rules import _names_of as names_of

TOOLS = ("a", "b", "c")
tools = st.one_of(
    st.sampled_from(TOOLS),
    st.sampled_from(
        [{"any_of": ["a", "b"]}, {"tool": "b", "matches": "x"}, {"not": {"tool": "a", "matches": "x"}}]
    ),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "within": st.sampled_from([1, 5]),
        "except": st.sampled_from([["c"], ["a"]]),
        "key": st.just("k"),
        "per": st.just("day"),
    },
)
TWO = (
    "must_precede",
    "cannot_follow_without",
    "never_after",
    "mutually_exclusive",
    "chain_precedence",
    "alternate_precedence",
    "response",
)
contracts = st.one_of(
    st.builds(
        lambda template, one, other, more: {"template": template, "args": [one, other], "kwargs": more},
        st.sampled_from(TWO),
        tools,
        tools,
        options,
    ),
    st.builds(
        lambda template, one, n, more: {"template": template, "args": [one, n], "kwargs": more},
        st.sampled_from(["at_most_n_times", "at_most_in_flight"]),
        tools,
        st.integers(1, 3),
        options,
    ),
    st.builds(lambda one, n: {"template": "rate_limit", "args": [one, n, 5]}, tools, st.integers(1, 2)),
    st.builds(lambda one: {"template": "at_most_total", "args": [one, "n", 2]}, tools),
    st.builds(lambda one: {"template": "max_distinct", "args": [one, "n", 1]}, tools),
    st.builds(
        lambda one, other, since: {
            "template": "must_precede",
            "args": [one, other],
            "kwargs": {"since": since},
        },
        tools,
        tools,
        tools,
    ),
    st.builds(lambda one: {"template": "required_before_session_end", "args": [one]}, tools),
    st.builds(lambda one: {"template": "init", "args": [one]}, tools),
    st.builds(lambda one: {"template": "requires_state", "args": [one, "open", True]}, tools),
    st.builds(
        lambda one, other: {"template": "came_from", "args": [one, "n", [{"tool": other, "named": True}]]},
        tools,
        tools,
    ),
)
calls = st.lists(
    st.tuples(
        st.sampled_from(TOOLS),
        st.sampled_from([{}, {"n": 1, "k": "x", "command": "x"}, {"n": 2, "command": ""}]),
        st.sampled_from(["ok", "ok", "failed", "aborted", "open"]),
        st.sampled_from([0.0, 2.0, 6.0]),
    ),
    max_size=12,
)


def built(spec: dict[str, Any]) -> Any:
    try:
        return build_contract(spec)
    except (TypeError, ValueError):
        return None


@given(specs=st.lists(contracts, min_size=1, max_size=3), schedule=calls)
def test_a_yes_is_certain(specs: list[dict[str, Any]], schedule: list[tuple[Any, ...]]) -> None:
    """The engine would let each of these calls through, whatever came before."""
    rules = tuple(filter(None, map(built, specs)))
    names = names_of(rules)
    clear = json.loads(json.dumps({} if names is None else clear_tools(rules, list(names))))
    compiled = {"state": {}, "rules_hash": "", "hash": "", "contracts": [], "names": names, "clear": clear}
    hook, now = HookRules(compiled), 1000.0
    session = Session({"open": True}, contracts=rules, clock=lambda: now)
    begun: dict[str, int] = {}
    done: dict[str, int] = {}
    held = []
    for tool, args, end, later in schedule:
        now += later
        certain = hook.surely_allow(tool, begun, done) or not hook.may_object(tool, args)
        reservation = session.reserve(tool, args)
        assert reservation.allowed or not certain, (clear, reservation.refusal)
        if not reservation.allowed:
            continue
        begun[tool] = begun.get(tool, 0) + 1
        if end == "open":
            held.append(reservation)
        elif end == "ok":
            reservation.commit("done")
            done[tool] = done.get(tool, 0) + 1
        else:
            reservation.abort(ran=end == "failed")


@pytest.mark.parametrize(
    ("spec", "clear"),
    [
        ({"template": "at_most_n_times", "args": ["a", 3]}, {"a": [{"fewer": 3, "of": ["a"]}]}),
        ({"template": "rate_limit", "args": ["a", 1, 60]}, {"a": [{"fewer": 1, "of": ["a"]}]}),
        ({"template": "must_precede", "args": ["a", "b"]}, {"a": [], "b": [{"done": 1, "of": ["a"]}]}),
        ({"template": "never_after", "args": ["a", "b"]}, {"b": [], "a": [{"fewer": 1, "of": ["b"]}]}),
        (
            {"template": "must_precede", "args": [{"tool": "Bash", "matches": "test"}, "b"]},
            {"b": [{"done": 1, "of": []}]},
        ),
        ({"template": "must_precede", "args": ["a", "b"], "within": 5}, {"a": []}),
        ({"template": "at_most_n_times", "args": ["a", 3], "key": "k"}, {}),
        ({"template": "at_most_n_times", "args": ["\u00e4", 3]}, {}),
        ({"template": "at_most_total", "args": ["a", "n", 3]}, {}),
        ({"template": "requires_state", "args": ["a", "open", True]}, {}),
        ({"template": "came_from", "args": ["a", "n", [{"tool": "b", "named": True}]]}, {}),
    ],
    ids=lambda value: str(value.get("template", "")),
)
def test_what_is_compiled(spec: dict[str, Any], clear: dict[str, Any]) -> None:
    """Comparisons of counts; nothing for a tool whose calls depend on more."""
    rules = (build_contract(spec),)
    names = names_of(rules)
    assert names is not None

    assert clear_tools(rules, sorted(names)) == clear


@pytest.mark.parametrize(
    ("spec", "guarding"),
    [
        ({"template": "must_precede", "args": ["a", "b"]}, [1]),
        ({"template": "must_precede", "args": ["a", "b"], "key": "k"}, [1]),
        ({"template": "must_precede", "args": ["a", "b"], "within": 5}, [1]),
        ({"template": "must_precede", "args": ["a", "a"]}, []),
        ({"template": "never_after", "args": ["a", "b"], "key": "k"}, [0, 1]),
        ({"template": "at_most_n_times", "args": ["a", 1]}, [0]),
        ({"template": "response", "args": ["a", "b"]}, [0, 1]),
        ({"template": "alternate_precedence", "args": ["a", "b"]}, [1]),
    ],
    ids=lambda value: str(value.get("template", "")) if isinstance(value, dict) else "",
)
def test_which_roles_can_be_refused(spec: dict[str, Any], guarding: list[int]) -> None:
    """A prerequisite is only remembered."""
    contract = build_contract(spec)

    assert [contract.roles.index(role) for role in guarding_roles(contract)] == guarding


def rules_of(*specs: dict[str, Any]) -> HookRules:
    built = tuple(build_contract(spec) for spec in specs)
    names = names_of(built)
    assert names is not None
    compiled: dict[str, Any] = {"state": {}, "rules_hash": "", "hash": "", "contracts": list(specs)}
    return HookRules({**compiled, "names": names, "clear": clear_tools(built, list(names))}, built)


def test_a_matcher_of_a_line_of_words_has_its_pattern() -> None:
    """Words in a list are looked at by the engine, and a text is as any other."""
    words = {"tool": "run", "matches": "^git push", "line": True, "field": "argv"}
    rules = rules_of({"template": "never", "args": [words]})

    told = [rules.may_object("run", {"argv": argv}) for argv in ("git push", "ls", ["ls"])]
    assert told == [True, False, True]


def test_half_a_character_is_for_the_engine_to_read() -> None:
    """No pattern can be searched for in it."""
    rules = rules_of({"template": "never", "args": [{"tool": "run", "matches": "git push"}]})

    assert rules.may_object("run", {"command": "\ud800ls"})


def test_a_name_in_other_letters_counts_as_the_name_that_it_is() -> None:
    """The sign for Kelvin is another way to write a K."""
    calls = Calls()
    pre = {"event": "pre", "call": "n0", "tool": "\u212aill", "digest": "", "ts": 1.0, "args": {}}
    calls.note(pre)
    calls.note({"event": "post", "call": "n0", "ok": True, "ran": True, "ts": 1.0})

    assert (calls.begun_of, calls.done_of) == ({"Kill": 1}, {"Kill": 1})
