"""Traces are filled with what conditions read, and only what a session shows counts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis import Analysis, analyse
from openbox_agentrt.acel.analysis.conditions.token_reader import NotUnderstoodError
from openbox_agentrt.acel.analysis.filling.expression import Expression, read_expression
from openbox_agentrt.acel.analysis.filling.filled_traces import fill, filling_of
from openbox_agentrt.acel.analysis.search.trace_row import TraceRow
from openbox_agentrt.acel.rulesfile import parse_rules

FACTS = [
    {
        "tool": "look",
        "as": "order",
        "key": "id",
        "values": {
            "placed": "placed",
            "items": "items",
            "prices": "items.*.price",
            "names": "items.*.name",
            "owner": "owner",
        },
    },
    {"tool": "login", "as": "user", "values": {"cards": "cards", "name": "result.name"}},
    {"tool": "find", "as": "person", "key": "result.id", "values": {"level": "level"}},
]

SHOWN = {
    "an element that exists": "args.items.exists(i, i == 'nuts')",
    "all elements": "size(args.items) == 2 && args.items.all(i, i in ['a', 'b'])",
    "one that exists alone": "args.items.exists_one(i, i.price > 100)",
    "elements that are counted": "args.items.filter(i, i.kind == 'card').size() >= 2",
    "a list without something": "!('nuts' in args.items) && size(args.items) > 0",
    "elements of what was told": "args.items.all(i, i in facts.order[args.id].names) "
    "&& size(args.items) == 1",
    "a sum of what was told": "sum(facts.order[args.id].prices) >= 5 "
    "&& args.amount <= sum(facts.order[args.id].prices)",
    "a mapping by key": "facts.user.cards[args.card].source == 'gift' "
    "&& facts.user.cards[args.card].balance >= args.amount",
    "a mapping that has a key": "args.card in facts.user.cards && !(args.other in facts.user.cards)",
    "a mapping that is written out": "args.bags <= {'silver': 1, 'gold': 2}[args.level]",
    "a time that has passed": "now - timestamp(facts.order[args.id].placed) > duration('24h')",
    "a time that has not": "now - timestamp(facts.order[args.id].placed) < duration('30m')",
    "a day": "timestamp(args.day + 'T00:00:00Z') > now",
    "who is told of what": "facts.person[facts.order[args.id].owner].level >= 3",
    "a text that a pattern fits": "args.mail.matches('^[a-z]+@corp[.]example$') && size(args.items) == 0",
    "elements that are made": "args.items.map(i, i.price * 2).exists(p, p == 10)",
    "a choice": "(args.fast ? args.items.size() : args.count) == 3",
    "different ones": "size(distinct(args.items)) == 2",
    "a number that is calculated": "args.amount in [100 * size(args.guests), 50 * size(args.guests)] "
    "&& args.amount > 50",
}
NEVER = {
    "elements that exclude each other": "args.items.exists(i, i > 5) && args.items.all(i, i < 3)",
    "a number that nobody thinks of": "args.items.all(i, i == 7) && size(args.items) * args.n == 12321",
}


def analysed(check: str, *others: dict[str, Any]) -> Analysis:
    asked = {"template": "requires", "args": ["pay"], "check": check, "id": "asked"}
    return analyse(parse_rules({"facts": FACTS, "contracts": [asked, *others]}))


@pytest.mark.parametrize("what", SHOWN)
def test_a_condition_over_lists_mappings_and_times_is_decided(what: str) -> None:
    """A session shows that it holds, and one that it alone refuses."""
    analysis = analysed(SHOWN[what])

    assert analysis.findings == ()
    assert analysis.undecided == ()
    assert analysis.decided == 1


@pytest.mark.parametrize("what", NEVER)
def test_what_no_value_shows_is_never_concluded_from(what: str) -> None:
    """Neither that it can be met, nor that it cannot."""
    analysis = analysed(NEVER[what])

    assert analysis.findings == ()
    assert len(analysis.undecided) == 1
    assert "since this is taken either way" in analysis.undecided[0]


def test_what_other_contracts_demand_is_kept_too() -> None:
    """Calls that tell facts are let through by their own conditions, and come after what they need."""
    before = {"template": "must_precede", "args": ["hello", "login"], "id": "first"}
    own = {"template": "requires", "args": ["look"], "check": "args.id in facts.user.cards", "id": "own"}
    once = {"template": "at_most_n_times", "args": ["pay", 1], "id": "once"}
    analysis = analysed("facts.order[args.id].items.exists(i, i.name == args.item)", before, own, once)

    assert analysis.findings == ()
    assert analysis.undecided == ()


def test_what_it_shows_happens_in_a_session() -> None:
    """The trace that is found is one that a session of its own goes along with, result by result."""
    check = "args.items.filter(i, facts.user.cards[i.card].source == 'gift').size() == 2"
    rules = parse_rules(
        {"facts": FACTS, "contracts": [{"template": "requires", "args": ["pay"], "check": check}]}
    )
    shown: list[list[TraceRow]] = []

    def play(rows: list[TraceRow]) -> list[TraceRow]:
        shown.append(rows)
        session = Session(contracts=rules.contracts, halt_on_violation=False)
        done = []
        for row in rows:
            call = session.reserve(row.tool, row.args)
            if call.allowed:
                call.commit(result=row.result)
            done.append(TraceRow(kind="call", tool=row.tool, outcome="ok" if call.allowed else "refused"))
        return done

    filling = filling_of([TraceRow(kind="call", tool="pay", args={})], rules.contracts, 1_780_000_000.0)

    assert fill(filling, play, lambda _, done: (sum(row.outcome != "ok" for row in done),), 400)
    told, paid = shown[-1]
    gifts = [item for item in paid.args["items"] if told.result["cards"][item["card"]]["source"] == "gift"]  # type: ignore[index]
    assert (told.tool, paid.tool) == ("login", "pay")
    assert len(gifts) == 2


def test_values_are_chosen_alike_in_every_process() -> None:
    """Whoever analyses a file twice reads the same twice."""
    program = (
        "from openbox_agentrt.acel.rulesfile import parse_rules\n"
        "from openbox_agentrt.acel.analysis.filling.filled_traces import filling_of\n"
        "from openbox_agentrt.acel.analysis.search.trace_row import TraceRow\n"
        f"facts = {FACTS!r}\n"
        f"asked = {{'template': 'requires', 'args': ['pay'], 'check': {SHOWN['who is told of what']!r}}}\n"
        "rules = parse_rules({'facts': facts, 'contracts': [asked]})\n"
        "found = filling_of([TraceRow(kind='call', tool='pay', args={})], rules.contracts, 1_780_000_000.0)\n"
        "print([str(row) for row in found.changed().written()])\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(said) == 1
    assert b"level" in said.pop()


def written(asked: Expression) -> Any:
    """Write a tree as nested lists."""
    if asked.kind == "value":
        return json.dumps(asked.value)
    return [asked.word or asked.kind, *map(written, asked.parts)] if asked.parts else asked.word or asked.kind


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a || b && !c", ["||", "a", ["&&", "b", ["!", "c"]]]),
        ("1 + 2 * 3 < 4 - 5 - 6", ["<", ["+", "1", ["*", "2", "3"]], ["-", ["-", "4", "5"], "6"]]),
        ("a.b[c].d", ["d", ["index", ["b", "a"], "c"]]),
        ("x in [1, 'in']", ["in", "x", ["list", "1", '"in"']]),
        ("a.all(i, i == -1)", ["all", "a", "i", ["==", "i", ["-", "1"]]]),
        ("a ? b : c ? d : e", ["choice", "a", "b", ["choice", "c", "d", "e"]]),
        ("{'k': 1, \"l\": 2u}[k]", ["index", ["map", '"k"', "1", '"l"', "2"], "k"]),
        ("size(a) == 0 == true", ["==", ["==", ["size", "a"], "0"], "true"]),
        ("f() == []", ["==", "f", "list"]),
    ],
)
def test_a_condition_is_read_as_cel_reads_it(text: str, tree: Any) -> None:
    """What binds tighter stands further inside."""
    assert written(read_expression(text)) == tree


@pytest.mark.parametrize("text", ["a.?b", "a[?0]", "1 2", "b'\\8'"])
def test_a_form_that_is_not_known_is_none(text: str) -> None:
    """It is left alone, and so is what it stands in."""
    with pytest.raises(NotUnderstoodError):
        read_expression(text)
