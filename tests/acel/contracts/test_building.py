"""What a contract is built from is checked when it is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    any_of,
    at_most_n_times,
    at_most_total,
    build_contract,
    cannot_follow_without,
    existence,
    matching,
    max_distinct,
    must_precede,
    never,
    not_matching,
    only,
    rate_limit,
    requires,
    requires_state,
    response,
)
from openbox_agentrt.acel.contracts.registry import CLASSES, TEMPLATES
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.wording import shown


@pytest.mark.parametrize(
    ("contract", "spec"),
    [
        (must_precede("a", "b"), "must_precede(a, b)"),
        (cannot_follow_without("b", "a"), "cannot_follow_without(b, a)"),
        (at_most_n_times("a", n=2), "at_most_n_times(a, n=2)"),
        (at_most_total("a", "f", limit=500), "at_most_total(a, f, limit=500)"),
        (
            at_most_total("a", "f", 0.5, numeric_text=True),
            "at_most_total(a, f, limit=0.5, numeric_text=True)",
        ),
        (rate_limit("a", 3, 60), "rate_limit(a, 3 per 60s)"),
        (must_precede("a", "b", key="c.id", within=1.5), "must_precede(a, b, key=c.id, within=1.5)"),
        (response("a", "b", 60), "response(a, b, within=60)"),
        (response("a", "b", None), "response(a, b)"),
        (existence("a"), "existence(a, n=1)"),
        (alternate_precedence("a", "b", saving=False), "alternate_precedence(a, b, saving=False)"),
        (
            max_distinct("a", "f", 3, refund_on_failure=True),
            "max_distinct(a, f, n=3, refund_on_failure=True)",
        ),
        (requires("a", "args.b  ==\n 1"), "requires(a, args.b == 1)"),
        (never("a", when="args.b == 1"), "never(a, when=args.b == 1)"),
        (requires_state("a", "k", "v"), "requires_state(a, k, 'v')"),
        (requires_state("a", "k", 1, key="id"), "requires_state(a, k, 1, key=id)"),
        (requires_state("a", "k", value=1), "requires_state(a, k, 1)"),
        (never(not_matching("a", "x", field="f")), "never(a(f!~/x/))"),
        (only(any_of("a", "b_*")), "only(a, b_*)"),
        (only("a"), "only(a)"),
        (must_precede(any_of("a", "c"), matching("d", "x")), "must_precede(any_of(a, c), d(command~/x/))"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_contract_is_written_as_it_is_read(contract: Template, spec: str) -> None:
    """acel-core's way, with the options after it."""
    assert contract.spec == spec


@pytest.mark.parametrize(
    ("template", "args", "kwargs", "error"),
    [
        ("at_most_n_times", ["a", -1], {}, "n must be non-negative, got -1"),
        ("at_most_n_times", ["a", 1.5], {}, "args[1]: must be a whole number, got a number"),
        ("at_most_n_times", ["a", True], {}, "args[1]: must be a whole number, got a boolean"),
        ("at_most_n_times", ["a"], {}, "at_most_n_times needs 'n'"),
        ("rate_limit", ["a", 0, 60], {}, "n must be at least 1, got 0"),
        ("rate_limit", ["a", 1, 0], {}, "window_seconds must be positive, in seconds, got 0"),
        ("rate_limit", ["a", 1, 60], {"within": 5}, "its window is window_seconds"),
        ("must_precede", ["a", "b"], {"within": -1}, "within must be positive, in seconds, got -1"),
        ("must_precede", ["a", "b"], {"within": "60"}, "within must be positive, in seconds, got '60'"),
        ("must_precede", ["a", "b"], {"within": True}, "within must be positive, in seconds, got True"),
        ("must_precede", ["a", "b"], {"within": 10**400}, "within must be positive"),
        (
            "must_precede",
            ["a", "b"],
            {"within": float("nan")},
            "within must be positive, in seconds, got nan",
        ),
        ("must_precede", ["a", "b"], {"key": ""}, "a field must be a name or a dotted path, got ''"),
        ("must_precede", ["a", "b"], {"mode": "off"}, "mode must be one of enforce, shadow, got 'off'"),
        (
            "must_precede",
            ["a", "b"],
            {"severity": 5},
            "severity must be one of info, low, medium, high, critical",
        ),
        ("must_precede", ["a", "b"], {"on_violation": "cry"}, "on_violation must be one of refuse, halt"),
        ("must_precede", ["a", "b"], {"id": ""}, "id must be text, got ''"),
        ("must_precede", ["a", "b"], {"remedy": 5}, "remedy must be text, got 5"),
        (
            "must_precede",
            ["a", "b"],
            {"whithin": 5},
            "has no argument 'whithin', it takes earlier",
        ),
        ("must_precede", ["", "b"], {}, "a tool must be named, got ''"),
        ("never", ["a"], {"within": 5}, "never has no option 'within'"),
        ("only", ["a"], {"key": "k"}, "only has no option 'key'"),
        ("never", [{"not": "a"}], {}, "args[0].not: must be a mapping, got text"),
        ("never", [{"not": {"any_of": ["a"]}}], {}, "args[0].not: a matcher must have 'tool' and 'matches'"),
        (
            "never",
            [{"not": {"tool": "a", "matches": "("}}],
            {},
            "args[0].not: pattern '('",
        ),
        ("never", [{"not": {"tool": "a", "matches": "b"}, "tool": "a"}], {}, "an unknown key 'tool'"),
        (
            "must_precede",
            [5, "b"],
            {},
            "args[0]: must be the name of a tool or a matcher",
        ),
        ("response", ["a", "b", 5, 6], {}, "args: response takes at most 3 arguments, got 4"),
        ("response", ["a", "b", 5], {"within": 6}, "kwargs.within: 'within' is given twice"),
        ("requires_state", ["a", "", 1], {}, "the key of a state entry must be text, got ''"),
        (
            "requires_state",
            ["a", "k", [1]],
            {},
            "args[2]: must be text, a number, true",
        ),
        ("requires_state", ["a", "k", float("nan")], {}, "the value of a state entry must be finite"),
        ("requires_state", ["a", "k", 1, 2], {}, "args: requires_state takes at most 3 arguments, got 4"),
        ("requires_state", ["a", "k"], {}, "requires_state needs 'value'"),
        ("must_follow", ["a"], {}, "template: unknown template 'must_follow', expected one of"),
        (
            "must_precede",
            [{"tool": "a"}, "b"],
            {},
            "args[0]: a matcher must have 'tool' and 'matches'",
        ),
        (
            "must_precede",
            [{"tool": "a", "matches": "x", "feild": "y"}, "b"],
            {},
            "an unknown key 'feild', did you mean 'field'",
        ),
        ("must_precede", [{"tool": "a", "matches": "("}, "b"], {}, "pattern '(' cannot be compiled"),
        ("must_precede", [{"any_of": "ab"}, "b"], {}, "args[0].any_of: must be a list, got text"),
        ("must_precede", [{"any_of": ["a"], "x": 1}, "b"], {}, "args[0]: has an unknown key 'x'"),
        ("must_precede", "ab", {}, "'args' must be a list, got text"),
        ("must_precede", ["a", "b"], [], "'kwargs' must be a mapping, got a list"),
        ("must_precede", ["a", "b"], {1: 2}, "kwargs"),
    ],
)
def test_a_mistake_is_named(template: str, args: Any, kwargs: Any, error: str) -> None:
    """In one line that shows the value."""
    with pytest.raises((ValueError, TypeError)) as caught:
        build_contract({"template": template, "args": args, "kwargs": kwargs})

    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_template_can_be_built_from_data() -> None:
    """With and without options."""
    arguments = {
        "at_most_n_times": ["a", 1],
        "at_most_in_flight": ["a", 1],
        "at_most_total": ["a", "f", 1],
        "rate_limit": ["a", 1, 60],
        "existence": ["a", 1],
        "init": ["a"],
        "never": ["a"],
        "only": ["a"],
        "required_before_session_end": ["a"],
        "max_distinct": ["a", "f", 1],
        "requires_state": ["a", "k", True],
        "came_from": ["a", "f", ["prompt"]],
        "keeps_out": ["a", "f", {"tool": "b"}],
        "requires": ["a", "args.b == 1"],
    }
    keyless = ("requires_state", "requires", "never", "only", "came_from", "keeps_out")
    for template in TEMPLATES:
        args = arguments.get(template, ["a", "b"])
        contract = build_contract(
            {
                "template": template,
                "args": args,
                "kwargs": {} if template in keyless else {"id": "X", "key": "k"},
            }
        )
        assert contract.template == template
        assert contract.spec.startswith(f"{template}(a")


def test_matchers_in_data() -> None:
    """As in a rules file, by position and by name."""
    session = Session(
        contracts=[
            build_contract(
                {
                    "template": "at_most_n_times",
                    "args": [{"any_of": ["a", {"tool": "sh", "matches": "RM", "field": "cmd"}]}],
                    "kwargs": {"n": 0},
                }
            ),
            build_contract(
                {"template": "at_most_n_times", "kwargs": {"tool": {"tool": "b", "matches": "x"}, "n": 0}}
            ),
        ]
    )

    assert not session.reserve("a").allowed
    assert not session.reserve("sh", {"cmd": "rm"}).allowed
    assert session.reserve("sh", {"cmd": "ls"}).allowed
    assert not session.reserve("b", {"command": "x"}).allowed


def test_values_in_messages_are_short_and_safe() -> None:
    """Whatever they are."""

    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown("x" * 500) == "'" + "x" * 79
    assert shown(Silent()) == "a Silent"
    assert shown(10**5000) == "a int"


def test_the_registry_has_every_template() -> None:
    """One that is left out could be written in no file."""
    named = dict(CLASSES)

    kinds = [kind for kind in _kinds_of(Template) if "template" in vars(kind)]

    ours = {kind.template: kind for kind in kinds if kind.__module__.startswith("openbox_agentrt.")}
    assert named == ours


def _kinds_of(kind: type[Template]) -> Iterator[type[Template]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds_of(one)
