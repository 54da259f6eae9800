"""Conditions in a search: what a few arguments decide, and what is taken either way."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis import Analysis, analyse, compare
from openbox_agentrt.acel.analysis.condition_texts import NotUnderstoodError, values_in
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

ORDER = {"tool": "look", "as": "order", "key": "id", "values": {"status": "status"}}
PENDING = 'facts.order[args.id].status == "pending"'


def c(template: str, *args: Any, **more: Any) -> dict[str, Any]:
    """A contract as data."""
    return {"template": template, "args": list(args), **more}


def rules(*contracts: dict[str, Any], **more: Any) -> Rules:
    return parse_rules({"contracts": list(contracts), "allow_empty": True, **more})


def found(*contracts: dict[str, Any], **more: Any) -> set[str]:
    """Say what is found, and that everything was decided."""
    analysis = analyse(rules(*contracts, **more))
    assert (analysis.undecided, analysis.not_analysed) == ((), ())
    return _said(analysis)


def _said(analysis: Analysis) -> set[str]:
    return {f"{finding.kind}: {finding.contracts[0].name}" for finding in analysis.findings}


@pytest.mark.parametrize(
    ("contracts", "expected"),
    [
        pytest.param(
            [c("requires", "x", 'args.a == "y"', id="y"), c("requires", "x", 'args.a == "z"', id="z")],
            {"tool-never-allowed: y"},
            id="two values at once",
        ),
        pytest.param(
            [c("requires", "x", "args.n > 5", id="above"), c("requires", "x", "args.n > 9", id="more")],
            {"contract-implied-by: above"},
            id="one bound above another",
        ),
        pytest.param(
            [c("requires", "x", "args.n > 5 && args.n < 5", id="none")],
            {"tool-never-allowed: none"},
            id="between nothing",
        ),
        pytest.param(
            [
                c("never", "x", when='args.to.startsWith("ext:")', id="ban"),
                c("requires", "x", '!args.to.startsWith("ext:")', id="not"),
            ],
            {"contract-implied-by: not"},
            id="the same said in two ways",
        ),
        pytest.param(
            [
                c("at_most_n_times", "x", 2, when='args.a in ["q", "r"]', id="few"),
                c("at_most_n_times", "x", 2, id="all"),
            ],
            {"contract-implied-by: few"},
            id="a part of a limit",
        ),
        pytest.param(
            [c("must_precede", "ok", "x", when="args.n >= 100", id="large"), c("never", "ok", id="not")],
            set(),
            id="small ones need nothing",
        ),
        pytest.param(
            [
                c("requires", "x", "size(args.list) <= 5", id="five"),
                c("requires", "x", "size(args.list) <= 3", id="three"),
            ],
            {"contract-implied-by: five"},
            id="sizes",
        ),
        pytest.param([c("requires", "x", "has(args.why)", id="why")], set(), id="an argument that is there"),
        pytest.param(
            [c("at_most_total", "x", "n", 500, id="sum"), c("requires", "x", "args.n <= 600", id="each")],
            {"contract-implied-by: each"},
            id="a sum that is lower than a bound",
        ),
    ],
)
def test_what_arguments_decide(contracts: list[dict[str, Any]], expected: set[str]) -> None:
    """What contradicts, and what follows, is found; what can be met is not."""
    assert found(*contracts) == expected


@pytest.mark.parametrize(
    ("contracts", "expected"),
    [
        pytest.param([c("requires", "x", PENDING, id="pending")], set(), id="either way"),
        pytest.param(
            [
                c("requires", "x", PENDING, id="pending"),
                c("never_after", "x", "start", id="after"),
                c("init", "start", id="init"),
            ],
            {"tool-never-allowed: after", "contract-implied-by: pending"},
            id="impossible whatever it says",
        ),
        pytest.param(
            [c("requires", "x", PENDING, id="one"), c("requires", "x", PENDING, id="two")],
            {"contract-implied-by: two"},
            id="the same twice",
        ),
        pytest.param(
            [
                c("must_precede", "ok", "x", when=PENDING, id="some"),
                c("must_precede", "ok", "x", id="all"),
            ],
            {"contract-implied-by: some"},
            id="a part of the calls",
        ),
    ],
)
def test_what_is_taken_either_way(contracts: list[dict[str, Any]], expected: set[str]) -> None:
    """A condition over facts may hold or not, and what is so in both cases is found."""
    assert found(*contracts, facts=[ORDER]) == expected


def test_what_no_session_shows_is_undecided() -> None:
    """A trap behind a condition that no session here comes past is neither told nor denied."""
    contracts = [
        c("requires", "a", PENDING, id="pending"),
        c("response", "a", "b", id="answer"),
        c("at_most_n_times", "b", 1, id="once"),
    ]
    analysis = analyse(rules(*contracts, facts=[ORDER]))

    assert "session-cannot-end-well: answer" not in _said(analysis)
    assert any("answer" in what for what in analysis.undecided)


@pytest.mark.parametrize(
    ("old", "new", "stricter", "looser"),
    [
        pytest.param(
            c("requires", "x", "args.n <= 500", id="cap"),
            c("requires", "x", "args.n <= 400", id="cap"),
            "x(n=500) refused by cap",
            None,
            id="a lower bound",
        ),
        pytest.param(
            c("at_most_n_times", "x", 1, id="one"),
            c("at_most_n_times", "x", 1, when='args.a != "free"', id="one"),
            None,
            'x(a="free"); x(a="free") refused by one',
            id="an exception",
        ),
    ],
)
def test_where_rules_with_conditions_part(
    old: dict[str, Any], new: dict[str, Any], stricter: str | None, looser: str | None
) -> None:
    """The arguments of the trace are such that the conditions say it."""
    parted = compare(rules(old), rules(new))
    said = [
        None if trace is None else "; ".join(map(str, trace)) for trace in (parted.stricter, parted.looser)
    ]

    assert said == [stricter, looser]
    assert parted.undecided == ()


def test_a_difference_that_no_session_shows_is_not_denied() -> None:
    """Where only facts lead there, it is said that it was not shown."""
    one = c("requires", "x", PENDING, id="pending")
    parted = compare(rules(one, c("never", "x"), facts=[ORDER]), rules(one, facts=[ORDER]))

    assert parted.looser is None
    assert parted.undecided


CONDITIONS = [
    'args.a == "y"',
    'args.a in ["y", "z"] && args.n < 3',
    "!(args.n >= 2 || args.n == -1)",
    "has(args.a) || 5 > args.n",
    'args.a.startsWith("ye") && args.a != "yes"',
    "size(args.a) > 1",
    "args.a",
]
VALUES: list[Any] = ["y", "z", "yes", "yeast", "", "q", True, None, [], ["x", "x"], 1, 2.5]
NUMBERS: list[Any] = [-1, -2, 0, 1.5, 2, 2.5, 3, 4, 5, 6, "3", None]


@pytest.mark.parametrize("text", CONDITIONS)
def test_the_values_that_are_tried_show_every_answer(text: str) -> None:
    """What any arguments make a session answer, one of those that are tried makes it answer too."""
    tried = {path: values.tried() for path, values in values_in(text).items()}
    other = {"a": VALUES, "n": NUMBERS}

    assert _answers(text, {path: other[path] for path in tried}) <= _answers(text, tried)


def _answers(text: str, values: dict[str, list[Any]]) -> set[bool]:
    session = Session.from_rules({"contracts": [c("requires", "x", text)]}, halt_on_violation=False)
    missing = object()
    return {
        not session.would("x", {k: v for k, v in zip(values, chosen, strict=True) if v is not missing})
        for chosen in itertools.product(*([*some, missing] for some in values.values()))
    }


@pytest.mark.parametrize(
    "text",
    [
        "args.a == args.b",
        'args.a.matches("x")',
        "args.n + 1 < 3",
        '"x" in args.a',
        "args.a < 'x'",
        "args.list.all(x, x > 1)",
        "size(args.a) == 100000",
        'args["a"] == 1',
        'args.a == "\\n"',
        "args.n < 1u",
        "args == {}",
        "1 < 2",
        "args.n < 0x10",
        "args.n < 1e3",
    ],
)
def test_a_text_of_another_kind_is_not_guessed_at(text: str) -> None:
    """It is then taken either way."""
    with pytest.raises(NotUnderstoodError):
        values_in(text)
