"""One customer has one budget, however the id is written."""

from __future__ import annotations

import json
import unicodedata
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.spelling import Fold
from openbox_agentrt.acel import (
    Session,
    any_of,
    at_most_n_times,
    max_distinct,
    must_precede,
    requires_state,
    rules_hash,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.match.keys import key_of
from openbox_agentrt.acel.match.spelling import key_text
from openbox_agentrt.acel.rulesfile import parse_rules

NFD = unicodedata.normalize("NFD", "René")

ONE = [
    pytest.param("René", NFD, None, id="another normal form"),
    pytest.param("c-1", " c-1\t", None, id="blanks around it"),
    pytest.param("c-1", "c-1\u00a0", None, id="a blank that does not break"),
    pytest.param("c1", "c\u200b1", None, id="a zero-width space"),
    pytest.param("c1", "\ufeffc1", None, id="a byte order mark"),
    pytest.param("c1", "c1\u0000", None, id="a control character"),
    pytest.param("c1", "c\u00ad1", None, id="a soft hyphen"),
    pytest.param("c1", "c1\ufe0f", None, id="a variation selector"),
    pytest.param("c1", "c\u202e1", None, id="a mark that turns text around"),
    pytest.param("c1", "\u3164c1", None, id="a filler"),
    pytest.param(42, "42", None, id="a number as text"),
    pytest.param(42, "42.0", None, id="a whole number with a point"),
    pytest.param(42.0, "42.000", None, id="more zeros"),
    pytest.param(0.5, "0.5", None, id="a fraction as text"),
    pytest.param(0, "-0.0", None, id="minus nothing"),
    pytest.param("Ann@Example.com", "ann@example.COM", "case", id="case"),
    pytest.param("straße", "STRASSE", "case", id="case that changes the length"),
    pytest.param("É", "e\u0301", "case", id="case and normal form"),
    pytest.param("7", "+007", "number", id="signs and leading zeros"),
    pytest.param(1.1, "1.10", "number", id="trailing zeros"),
    pytest.param("1e2", 100, "number", id="an exponent"),
    pytest.param("\uff11\uff12", 12, "number", id="digits of full width"),
    pytest.param("\u0661", "1", "number", id="digits of another script"),
    pytest.param(uuid.UUID(int=1), str(uuid.UUID(int=1)), None, id="an id as an object"),
]

TWO = [
    pytest.param("c-1", "c-2", None, id="another id"),
    pytest.param("c 1", "c1", None, id="a blank inside"),
    pytest.param("007", "7", None, id="leading zeros"),
    pytest.param("1.1", "1.10", None, id="versions"),
    pytest.param("+41", "41", None, id="a telephone number"),
    pytest.param("Ann", "ann", None, id="case"),
    pytest.param("1_0", "10", "number", id="an underscore"),
    pytest.param("x7", "x07", "number", id="no number"),
    pytest.param("\u00b2", "2", "number", id="no digit of a number"),
    pytest.param("x\uff11", "x1", "number", id="a digit in a text"),
]


def twice(contract: TemporalContract, first: Any, then: Any) -> bool:
    session = Session(contracts=[contract])
    session.call("refund", {"customer": first})
    return session.reserve("refund", {"customer": then}).allowed


@pytest.mark.parametrize(("first", "then", "fold"), ONE)
def test_another_spelling_is_no_second_budget(first: Any, then: Any, fold: Fold | None) -> None:
    """Nor is it a second value, in either order."""
    for one, other in ((first, then), (then, first)):
        assert not twice(at_most_n_times("refund", 1, key="customer", fold=fold), one, other)
        assert twice(max_distinct("refund", "customer", 1, fold=fold), one, other)


@pytest.mark.parametrize(("first", "then", "fold"), TWO)
def test_what_a_person_tells_apart_is_apart(first: Any, then: Any, fold: Fold | None) -> None:
    """Taking two customers for one would let the check of one of them allow the other."""
    assert twice(at_most_n_times("refund", 1, key="customer", fold=fold), first, then)
    assert not twice(max_distinct("refund", "customer", 1, fold=fold), first, then)


@given(st.text(), st.sampled_from([None, "case", "number"]))
def test_a_key_is_its_own_key(text: str, fold: Fold | None) -> None:
    """What a snapshot holds of a key is read as the same key."""
    key = key_text(text, "id", fold=fold)

    assert key_text(key, "id", fold=fold) == key


def test_a_prerequisite_per_key_is_found_in_another_spelling() -> None:
    """What is one budget is one customer where it allows too."""
    session = Session(contracts=[must_precede("verify", "refund", key="customer")])
    session.call("verify", {"customer": NFD})

    assert session.reserve("refund", {"customer": "René "}).allowed


def test_an_entry_of_the_state_is_found_in_another_spelling() -> None:
    """Of two spellings with two values, none is the one."""
    contract = requires_state("refund", "open", True, key="customer")
    session = Session({"open": {NFD: True}}, contracts=[contract])
    assert session.reserve("refund", {"customer": "René"}).allowed
    both = Session({"open": {"x\u200b": True, " x": False}}, contracts=[contract])
    assert not both.reserve("refund", {"customer": "x"}).allowed


def test_a_snapshot_of_before_is_read_by_value() -> None:
    """A customer whose id was kept as it was written has no second budget after that."""
    contract = at_most_n_times("refund", 1, key="customer")
    session = Session(contracts=[contract])
    session.call("refund", {"customer": "René"})
    snapshot = session.snapshot()
    ((name, cell),) = snapshot["memory"]["cells"].items()
    snapshot["memory"]["cells"][name] = {f"{NFD} ": cell["René"]}

    restored = Session.restore(snapshot, [at_most_n_times("refund", 1, key="customer")])

    assert not restored.reserve("refund", {"customer": "René"}).allowed


def test_folding_needs_something_to_fold() -> None:
    """And is one of the words that there are."""
    with pytest.raises(ValueError, match="fold needs a key"):
        at_most_n_times("refund", 1, fold="case")
    with pytest.raises(ValueError, match="fold must be one of case, number, got 'upper'"):
        at_most_n_times("refund", 1, key="customer", fold="upper")  # type: ignore[arg-type]
    assert at_most_n_times("a", 1, key="b", fold="case").spec == "at_most_n_times(a, n=1, key=b, fold=case)"
    assert key_of("b", "case").text == "b, fold=case"


def reserved(contract: TemporalContract, *calls: tuple[str, dict[str, Any]]) -> list[bool]:
    """Whether each call is let through; those that are succeed."""
    session = Session(contracts=[contract])
    found = []
    for tool, args in calls:
        reservation = session.reserve(tool, args)
        found.append(reservation.allowed)
        if reservation.allowed:
            reservation.commit()
    return found


def test_several_arguments_are_one_key() -> None:
    """Each combination of their values has a budget, and two values are not taken for a third."""
    limit = at_most_n_times("book", 1, key=["reservation.id", "cabin"], fold="case")

    calls = [
        ("1", "eco"),
        ("1", "bus"),
        ("2", "eco"),
        ("1 ", "ECO"),
        (1, "eco"),
        ('1", "eco', "x"),
        ("1", None),
    ]
    made = [("book", {"reservation": {"id": a}, "cabin": b}) for a, b in calls]

    assert reserved(limit, *made) == [True, True, True, False, False, True, False]
    assert limit.spec == "at_most_n_times(book, n=1, key=[reservation.id, cabin], fold=case)"


def test_all_arguments_are_one_key() -> None:
    """No identical call twice, in whatever order and spelling its arguments are."""
    limit = at_most_n_times("send", 1, key="*")

    first = {"to": ["ann", "bob"], "text": "hi", "urgent": True, "n": 1, "cc": None}
    assert reserved(
        limit,
        ("send", first),
        ("send", dict(reversed(first.items()))),
        ("send", {**first, "n": 1.0, "text": " hi\u200b"}),
        ("send", {**first, "text": "Hi"}),
        ("send", {**first, "to": ["bob", "ann"]}),
        ("send", {**first, "urgent": 1}),
        ("send", {name: value for name, value in first.items() if name != "cc"}),
        ("send", {}),
        ("send", {}),
    ) == [True, False, False, True, True, True, True, True, False]


def test_all_arguments_where_one_cannot_be_looked_into() -> None:
    """Whether the call was made before, nobody can tell."""
    session = Session(contracts=[at_most_n_times("send", 1, key="*")])

    refusal = session.reserve("send", {"what": object()}).refusal

    assert refusal is not None
    assert refusal.broken[0].fault == "an argument cannot be looked into (opaque)"


def test_one_thing_under_two_names() -> None:
    """Tools of two teams call an order differently."""
    order = must_precede("find_order", "refund", key={"find_order": "id", "refund": "order_id"})

    assert reserved(
        order,
        ("refund", {"order_id": 7}),
        ("find_order", {"id": "7"}),
        ("refund", {"order_id": 8}),
        ("refund", {"order_id": 7}),
        ("refund", {"id": 7}),
    ) == [False, True, False, True, False]
    assert order.spec == "must_precede(find_order, refund, key={find_order: id, refund: order_id})"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: at_most_n_times("a", 1, key=[]), "a key must name one or more arguments, each once, got []"),
        (lambda: at_most_n_times("a", 1, key=["x", "x"]), "each once, got ['x', 'x']"),
        (lambda: at_most_n_times("a", 1, key=5), "a key must be a path, a list of paths, or"),  # type: ignore[arg-type]
        (lambda: at_most_n_times("a", 1, key={}), "a key must name an argument for each tool, got {}"),
        (
            lambda: must_precede("a", "b", key={"a": "x"}),
            "tool 'b' has no argument in the key",
        ),
        (
            lambda: must_precede("a", "b", key={"a": "x", "b": "y", "c": "z"}),
            "tool 'c' has no role",
        ),
        (lambda: must_precede("a", "b_*", key={"a": "x", "b_*": "y"}), "a contract that names its tools"),
        (lambda: requires_state("a", "k", 1, key=["x", "y"]), "requires_state takes one argument as its key"),
    ],
)
def test_a_key_that_is_none(make: Any, message: str) -> None:
    """It is refused when the contract is made."""
    with pytest.raises((TypeError, ValueError)) as caught:
        make()

    assert message in str(caught.value)


@pytest.mark.parametrize("key", ["k", ["k", "n"], {"a": "k", "b": "m"}, "*"], ids=str)
def test_every_key_survives_a_snapshot(key: Any) -> None:
    """A second budget is not had by going on elsewhere."""

    def contract() -> TemporalContract:
        return at_most_n_times(any_of("a", "b"), 1, key=key)

    session = Session(contracts=[contract()])
    session.call("a", {"k": "é", "n": 5})
    restored = Session.restore(json.loads(json.dumps(session.snapshot())), [contract()])

    assert not restored.reserve("a", {"k": "e\u0301", "n": 5.0}).allowed
    assert restored.reserve("a", {"k": "f", "n": 5}).allowed


def test_keys_in_a_rules_file() -> None:
    """Written as in Python."""
    rules = parse_rules(
        "contracts:\n"
        "  - {template: at_most_n_times, args: [a, 1], key: [x, y.z]}\n"
        "  - {template: at_most_n_times, args: [b, 1], key: '*'}\n"
        "  - {template: must_precede, args: [a, b], key: {a: x, b: y}}\n"
        "  - {template: must_precede, args: [a, b], key: {a: 'x,y', b: y}}\n"
    )

    assert [contract.key for contract in rules.contracts[:3]] == [["x", "y.z"], "*", {"a": "x", "b": "y"}]
    assert [warning.line for warning in rules.warnings] == [5]
    assert rules_hash([at_most_n_times("a", 1, key=["x", "y"])]) == rules_hash(
        [at_most_n_times("a", 1, key=["y", "x"])]
    )
    assert rules_hash([at_most_n_times("a", 1, key=["x"])]) == rules_hash([at_most_n_times("a", 1, key="x")])
