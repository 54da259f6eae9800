"""Conditions in a search: what a few arguments decide, and what is taken either way."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis import Analysis, analyse, compare
from openbox_agentrt.acel.analysis.conditions.reading import read_condition
from openbox_agentrt.acel.condition.source import tokens_of
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

ORDER = {"tool": "look", "as": "order", "key": "id", "values": {"status": "status"}}
USER = {"tool": "login", "as": "user", "values": {"tier": "tier", "id": "id"}}
FOUND = {"tool": "search", "as": "found", "key": "result.best.id", "values": {"status": "best.status"}}
FACTS = [ORDER | {"values": {"status": "status", "total": "total", "placed": "placed"}}, USER, FOUND]
SOON = 'now - timestamp(facts.order[args.id].placed) < duration("24h")'
# Of all numbers, one that nobody thinks of.
FAR = "args.n * args.n == 12321"
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


ONCE_EACH = c("at_most_n_times", "b", 1, key="k", id="once")


@pytest.mark.parametrize(
    "contracts",
    [
        pytest.param([c("requires", "b", "session.b < 2", id="few"), ONCE_EACH], id="a limit"),
        pytest.param([c("requires", "x", "session.b >= 3", id="many"), ONCE_EACH], id="a prerequisite"),
        pytest.param([c("requires", "x", "session.b == 2", id="two"), ONCE_EACH], id="just so many"),
        pytest.param([c("requires", "x", "session.b > 2", id="more"), ONCE_EACH], id="one more"),
    ],
)
def test_a_count_goes_over_all_customers(contracts: list[dict[str, Any]]) -> None:
    """As many customers are tried as it takes to get past it, where each of them counts once."""
    assert found(*contracts) == set()


def test_a_count_over_more_customers_than_are_tried_is_open() -> None:
    kept = rules(ONCE_EACH)
    for count in (c("requires", "b", "session.b < 30", id="few"), c("at_most_n_times", "b", 30, id="few")):
        analysis = analyse(rules(count, ONCE_EACH))
        parted = compare(rules(count, ONCE_EACH), kept)

        assert analysis.findings == ()
        assert ["few ever decides" in what for what in analysis.undecided] == [True]
        assert "more values of a key" in analysis.undecided[0]
        assert parted.looser is None
        assert parted.undecided == ("whether they part elsewhere, around few",)


def test_an_amount_over_the_limit_may_be_covered_by_what_was_told() -> None:
    """What a call has told is tried above and below each amount of a limit, so that the limit decides."""
    covered = c("requires", "refund", "args.amount <= facts.order[args.id].total")
    cap = c("at_most_total", "refund", "amount", 500, key="id")
    once = c("at_most_n_times", "refund", 1, key="id")
    order = {"tool": "get", "as": "order", "key": "id", "values": {"total": "total"}}

    assert found(covered, cap, once, facts=[order]) == set()


def test_customers_may_be_left_who_end_a_session_well() -> None:
    """What is owed until enough calls succeeded is owed no more, if other customers are called for."""
    owed = c("existence", "a", 1, when="session.b < 2", id="owed")
    analysis = analyse(rules(owed, ONCE_EACH, c("never", "a", id="ban")))

    assert "session-cannot-end-well: owed" not in _said(analysis)


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
        pytest.param([c("requires", "x", PENDING, id="pending")], set(), id="told or not"),
        pytest.param(
            [c("requires", "x", PENDING, id="pending"), c("never", "look", id="no")],
            {"tool-never-allowed: pending"},
            id="nobody may tell it",
        ),
        pytest.param(
            [
                c("requires", "x", PENDING, id="pending"),
                c("requires", "x", 'facts.order[args.id].status == "sent"', id="sent"),
            ],
            {"tool-never-allowed: pending"},
            id="two answers at once",
        ),
        pytest.param(
            [c("requires", "x", f"!(args.id in facts.order) && {PENDING}", id="pending")],
            {"tool-never-allowed: pending"},
            id="known and not known",
        ),
        pytest.param(
            [
                c("requires", "x", 'facts.order[args.id].status in ["pending", "new"]', id="some"),
                c("requires", "x", PENDING, id="one"),
            ],
            {"contract-implied-by: some"},
            id="one of several",
        ),
        pytest.param(
            [
                c("requires", "x", PENDING, id="pending"),
                c("never_after", "look", "x", id="after"),
                c("at_most_n_times", "look", 1, key="id", id="once"),
            ],
            set(),
            id="looked at once",
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
        pytest.param(
            [
                c("requires", "x", "args.n <= facts.order[args.id].total", id="total"),
                c("requires", "x", "args.n > facts.order[args.id].total", id="more"),
            ],
            {"tool-never-allowed: total"},
            id="an argument against what was told",
        ),
        pytest.param(
            [
                c("requires", "x", "args.n <= facts.order[args.id].total", id="total"),
                c("requires", "x", "args.n < facts.order[args.id].total", id="less"),
            ],
            {"contract-implied-by: total"},
            id="at most or less",
        ),
        pytest.param(
            [
                c("requires", "x", "session.y < 2", id="few"),
                c("must_precede", "y", "x", id="first"),
                c("requires", "x", "session.y != 1", id="not"),
            ],
            {"tool-never-allowed: few"},
            id="counts",
        ),
        pytest.param(
            [c("requires", "x", 'facts.user.tier == "gold"', id="gold"), c("init", "y", id="y")],
            set(),
            id="without a key",
        ),
        pytest.param(
            [c("requires", "x", "args.owner == facts.user.id", id="own")], set(), id="the same as was told"
        ),
        pytest.param(
            [
                c("requires", "x", 'facts.found[args.id].status == "open"', id="open"),
                c("never", "search", id="no"),
            ],
            {"tool-never-allowed: open"},
            id="a key in the result",
        ),
        pytest.param(
            [c("requires", "x", 'facts.found[args.id].status == "open"', id="open")],
            set(),
            id="a key in the result that is told",
        ),
    ],
)
def test_what_calls_tell_is_followed(contracts: list[dict[str, Any]], expected: set[str]) -> None:
    """What was told stays told, and only the calls that tell it do."""
    assert found(*contracts, facts=FACTS) == expected


def test_a_witness_says_what_was_told() -> None:
    """A session that goes along is one in which that call returned it."""
    contracts = [
        c("requires", "a", PENDING, id="pending"),
        c("response", "a", "b", id="answer"),
        c("at_most_n_times", "b", 1, id="once"),
    ]
    (finding,) = analyse(rules(*contracts, facts=[ORDER])).findings

    assert finding.kind == "session-cannot-end-well"
    assert finding.witness is not None
    assert 'look(id="A") gives {"status": "pending"}' in map(str, finding.witness)
    assert str(finding.witness[-1]) == "the session ends, unmet: answer"


@pytest.mark.parametrize(
    ("contract", "unmet"),
    [
        pytest.param(c("required_before_session_end", "b", when="session.a > 1", id="e"), True, id="counted"),
        pytest.param(c("existence", "b", 1, when='facts.user.tier == "gold"', id="e"), False, id="free"),
    ],
)
def test_conditions_that_are_asked_at_the_end(contract: dict[str, Any], unmet: bool) -> None:
    """A session in which the condition holds cannot end well where nothing meets what it asks for."""
    others = [c("never", "b", id="no")] if unmet else [c("never", "c", id="no")]
    kinds = found(contract, c("at_most_n_times", "a", 3, id="a"), *others, facts=FACTS)

    assert kinds == ({"session-cannot-end-well: e"} if unmet else set())


@pytest.mark.parametrize("other", ["c", "pay"])
def test_a_call_under_way_counts_whatever_else_is_asked_anew(other: str) -> None:
    """A condition of another contract over what happened makes no call under way forgotten."""
    contracts = [
        c("at_most_in_flight", "pay", 1, when="args.n > 1", id="one"),
        c("existence", "a", 1, when=f"session.{other} > 0"),
        c("must_precede", "a", "pay", when=f"session.{other} > 5"),
    ]

    assert not any("contract-" in kind and kind.endswith(": one") for kind in found(*contracts))


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(f"{FAR} && {PENDING}", id="a part"),
        pytest.param(FAR, id="the whole"),
    ],
)
def test_what_no_session_shows_is_undecided(check: str) -> None:
    """Where a part is taken either way, a tool that is let through for it is not said to be."""
    analysis = analyse(rules(c("requires", "x", check, id="soon"), facts=FACTS))

    assert analysis.findings == ()
    assert analysis.decided == 0
    assert analysis.undecided == (
        f"whether calls of 'x' are ever let through, since this is taken either way: {FAR}",
    )


def test_what_is_impossible_whatever_an_open_part_says_is_found() -> None:
    """The parts that are followed are followed all the same."""
    contracts = [
        c("requires", "x", f"{SOON} && {PENDING}", id="soon"),
        c("requires", "x", 'facts.order[args.id].status == "sent"', id="sent"),
    ]
    analysis = analyse(rules(*contracts, facts=FACTS))

    assert _said(analysis) == {"tool-never-allowed: soon"}
    assert analysis.undecided == ()


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
    """Where no value is found that leads there, it is said that it was not shown."""
    one = c("requires", "x", FAR, id="far")
    parted = compare(rules(one, c("never", "x"), facts=FACTS), rules(one, facts=FACTS))

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
    reading = read_condition(text, {})
    assert not reading.open
    tried = {place.name: values.tried() for place, values in reading.compared.items()}
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
    assert list(read_condition(text, {}).open.values()) == [
        " ".join(t.text for t in tokens_of(text) if t.kind != "blank")
    ]


@pytest.mark.parametrize(
    "check",
    [
        'subject.role == "sre"',
        'subject.team in ["core", "infra"] && has(args.why)',
        "subject.level >= 3",
        'now < timestamp("2030-01-01T00:00:00Z")',
        "now.getHours() >= 9 && now.getHours() < 17",
        "now.getDayOfWeek() != 0",
    ],
)
def test_what_the_subject_or_the_time_says_is_shown_by_sessions(check: str) -> None:
    """The subject has the values that it is compared with, and sessions begin before and after times."""
    assert found(c("requires", "deploy", check), c("at_most_n_times", "deploy", 2)) == set()


def test_what_no_subject_shows_is_open() -> None:
    analysis = analyse(rules(c("requires", "deploy", 'subject.role == "a" && subject.role == "b"')))

    assert any("calls of 'deploy' are ever let through" in what for what in analysis.undecided)
