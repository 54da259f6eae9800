"""Amounts are exact, and what cannot be read is not let through."""

from __future__ import annotations

import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.amounts import AmountError, add, read_amount, show, subtract
from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, matching, max_distinct
from openbox_agentrt.acel.match.paths import FieldError, FieldPath
from openbox_agentrt.acel.match.spelling import key_text


class Coins(enum.IntEnum):
    TWO = 2


class LyingFloat(float):
    def __repr__(self) -> str:
        return "0"


class LyingInt(int):
    def __index__(self) -> int:
        return 0

    def __abs__(self) -> int:
        return 0


def str_of(value: Any) -> str:
    """A short id; Python does not print very long numbers."""
    long = isinstance(value, int) and abs(value) > 10**40
    return "a long number" if long else repr(value)[:20]


READABLE = [
    (5, 5),
    (0, 0),
    (0.1, Decimal("0.1")),
    (Decimal("12.50"), Decimal("12.50")),
    (Coins.TWO, 2),
    (1e300, Decimal("1e300")),
    (LyingFloat(7), Decimal(7)),
    (LyingInt(7), 7),
    (10**399, 10**399),
]

UNREADABLE: list[tuple[Any, str]] = [
    (None, "is missing"),
    (True, "is a boolean"),
    (False, "is a boolean"),
    ("5", "is not a number"),
    ([5], "is not a number"),
    ({}, "is not a number"),
    (1 + 2j, "is not a number"),
    (Fraction(1, 3), "is not a number"),
    (float("nan"), "is not finite"),
    (float("inf"), "is not finite"),
    (-math.inf, "is not finite"),
    (Decimal("NaN"), "is not finite"),
    (Decimal("sNaN"), "is not finite"),
    (Decimal("Infinity"), "is not finite"),
    (-1, "is negative"),
    (-0.01, "is negative"),
    (10**400, "is out of range"),
    (-(10**5000), "is out of range"),
    (Decimal("1e400"), "is out of range"),
    (Decimal("1e-999999999"), "is out of range"),
    (Decimal("1e999999999999999999"), "is out of range"),
]


@pytest.mark.parametrize(("value", "amount"), READABLE, ids=str_of)
def test_a_number_is_read_as_it_was_written(value: Any, amount: Any) -> None:
    """A float counts as its shortest decimal form, whatever a subclass says."""
    assert read_amount(value) == amount


@pytest.mark.parametrize(("value", "why"), UNREADABLE, ids=str_of)
def test_what_is_no_amount_is_an_error(value: Any, why: str) -> None:
    """It says why, and not what the value was."""
    with pytest.raises(AmountError) as caught:
        read_amount(value)

    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "amount"), [("5", 5), ("12.50", Decimal("12.50")), (" 7 ", 7), ("1e3", 1000), ("-2", -2)]
)
def test_text_is_a_number_if_asked_for(text: str, amount: Any) -> None:
    """By option only."""
    assert read_amount(text, text=True, negative=True) == amount


@pytest.mark.parametrize("text", ["", "five", "1_000", "٣", "0x10", "nan", "inf", "1,5", "9" * 5000, "--1"])
def test_not_every_text_is_a_number(text: str) -> None:
    """Other digits, underscores, and what Python would read as special are not."""
    with pytest.raises(AmountError):
        read_amount(text, text=True, negative=True)


@pytest.mark.parametrize(("value", "_why"), UNREADABLE, ids=str_of)
def test_a_limit_refuses_what_it_cannot_read(value: Any, _why: str) -> None:
    """The call is refused, nothing is added, and the fault is in the record."""
    session = Session(contracts=[at_most_total("pay", "n", 10)])

    reservation = session.reserve("pay", {"n": value})

    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].fault == f"n {_why}"
    assert session.reserve("pay", {"n": 10}).allowed


def test_a_limit_refuses_a_missing_amount() -> None:
    """A call without the field is not free of charge."""
    session = Session(contracts=[at_most_total("pay", "n", 10)])

    assert session.reserve("pay").refusal.broken[0].fault == "n is missing"  # type: ignore[union-attr]  # refused


def test_three_times_a_tenth_is_three_tenths() -> None:
    """Not 0.30000000000000004."""
    session = Session(contracts=[at_most_total("pay", "n", 0.3)])

    assert [session.reserve("pay", {"n": 0.1}).allowed for _ in range(4)] == [True, True, True, False]


def test_a_cent_is_not_lost_beside_a_fortune() -> None:
    """Sums are never rounded."""
    session = Session(contracts=[at_most_total("pay", "n", Decimal("1e30"))])

    assert session.reserve("pay", {"n": 10**30 - 1}).allowed
    assert session.reserve("pay", {"n": 0.99}).allowed
    assert not session.reserve("pay", {"n": 0.02}).allowed
    assert session.reserve("pay", {"n": 0.01}).allowed


@given(st.lists(st.one_of(st.integers(0, 10**20), st.floats(0, 1e20, allow_nan=False)), max_size=30))
def test_sums_are_exact(values: list[Any]) -> None:
    """Adding amounts is adding fractions, and taking them away again leaves nothing."""
    total: Any = 0
    for value in values:
        total = add(total, read_amount(value))

    assert Fraction(total) == sum((Fraction(repr(value)) for value in values), Fraction(0))
    for value in values:
        total = subtract(total, read_amount(value))
    assert total == 0


@given(st.integers(-(10**30), 10**30) | st.decimals(allow_nan=False, allow_infinity=False, places=3))
def test_an_amount_is_shown_as_it_can_be_read_again(value: Any) -> None:
    """Without an exponent."""
    shown = show(value)

    assert "E" not in shown
    assert read_amount(shown, text=True, negative=True) == value


def test_a_negative_amount_is_refused_unless_allowed() -> None:
    """Otherwise a refund of -1000 would make room for a payment of 1000."""
    strict = Session(contracts=[at_most_total("pay", "n", 10)])
    lenient = Session(contracts=[at_most_total("pay", "n", 10, allow_negative=True)])

    assert not strict.reserve("pay", {"n": -5}).allowed
    lenient.call("pay", {"n": 10})
    back = lenient.reserve("pay", {"n": -4})
    assert not lenient.reserve("pay", {"n": 4}).allowed, "it makes room only once it has succeeded"
    back.commit()
    assert lenient.reserve("pay", {"n": 4}).allowed


def test_text_amounts_by_option() -> None:
    """Where a tool takes its amounts as text."""
    session = Session(contracts=[at_most_total("pay", "n", 10, numeric_text=True)])

    assert session.reserve("pay", {"n": "7.50"}).allowed
    assert not session.reserve("pay", {"n": "2.51"}).allowed


@pytest.mark.parametrize("limit", [-1, float("nan"), math.inf, "10", None, True, 10**500])
def test_a_limit_is_checked_when_it_is_built(limit: Any) -> None:
    """Not when the first call comes."""
    with pytest.raises(ValueError, match="limit"):
        at_most_total("pay", "n", limit)


PATHS: list[tuple[str, Any, Any]] = [
    ("amount", {"amount": 1}, 1),
    ("payment.amount", {"payment": {"amount": 1}}, 1),
    ("payment.amount", {"payment.amount": 1}, 1),
    ("items.1.price", {"items": [{"price": 1}, {"price": 2}]}, 2),
    ("items.0", {"items": (7,)}, 7),
]


@pytest.mark.parametrize(("path", "args", "value"), PATHS)
def test_a_field_is_found_by_its_path(path: str, args: dict[str, Any], value: Any) -> None:
    """Through mappings and lists, or by a name that has dots in it."""
    assert FieldPath(path).read(args) == value


@pytest.mark.parametrize(
    ("path", "args"),
    [
        ("amount", {}),
        ("payment.amount", {}),
        ("payment.amount", {"payment": {}}),
        ("payment.amount", {"payment": 5}),
        ("payment.amount", {"payment": {"amount": 1}, "payment.amount": 0}),
        ("items.2", {"items": [1, 2]}),
        ("items.-1", {"items": [1, 2]}),
        ("items.x", {"items": [1, 2]}),
        ("items.99999999999", {"items": [1, 2]}),
        ("text.0", {"text": "abc"}),
    ],
)
def test_a_field_that_is_not_there_once_is_not_read(path: str, args: dict[str, Any]) -> None:
    """A second one under the literal name would leave open which of them the tool uses."""
    with pytest.raises(FieldError):
        FieldPath(path).read(args)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", None, 5])
def test_a_path_is_checked_when_it_is_built(text: Any) -> None:
    """An empty part stands for nothing."""
    with pytest.raises(ValueError, match="a field must be"):
        FieldPath(text)


def test_a_limit_reads_a_path() -> None:
    """Amounts are seldom at the top."""
    session = Session(contracts=[at_most_total("pay", "payment.amount", 5)])

    assert session.reserve("pay", {"payment": {"amount": 5}}).allowed
    assert not session.reserve("pay", {"payment": {"amount": 1}}).allowed
    assert not session.reserve("pay", {"payment": {"amount": 0}, "payment.amount": 0}).allowed


SAME = [["42", 42, 42.0, Decimal("42.0")], ["0.5", 0.5, Decimal("0.50")], ["x"], ["-3", -3]]


@pytest.mark.parametrize("values", SAME, ids=lambda values: values[0])
def test_one_id_in_several_types_is_one_key(values: list[Any]) -> None:
    """A caller cannot get a second budget by writing an id in another type."""
    assert {key_text(value, "id") for value in values} == {values[0]}


@pytest.mark.parametrize("value", [None, True, [], {}, float("nan"), Decimal("sNaN"), 10**500, object()])
def test_what_cannot_be_a_key(value: Any) -> None:
    """It is refused on the strict side, and the value is not in the error."""
    with pytest.raises(FieldError, match=r"^id "):
        key_text(value, "id")


def test_a_long_key_is_kept_as_its_hash() -> None:
    """Memory per key is bounded."""
    long, other = key_text("x" * 10_000, "id"), key_text("x" * 10_000 + "y", "id")

    assert len(long) == 71
    assert long != other
    assert key_text("\ud800" * 200, "id").startswith("sha256:")


def test_a_key_that_cannot_be_read_is_refused() -> None:
    """A limit per customer is not evaded by leaving the customer out."""
    session = Session(contracts=[at_most_n_times("pay", 1, key="customer.id")])

    broken = session.reserve("pay", {"customer": {}}).refusal.broken[0]  # type: ignore[union-attr]  # refused

    assert (broken.fault, broken.needs) == ("customer.id is missing", None)


def test_each_key_has_its_own_automaton() -> None:
    """One customer's calls do not count for another."""
    session = Session(contracts=[at_most_n_times("pay", 1, key="customer.id")])

    allowed = [session.reserve("pay", {"customer": {"id": i}}).allowed for i in (1, 2, "1", 2, 3)]

    assert allowed == [True, True, False, False, True]


@pytest.mark.parametrize("value", [None, True, [None], [["a"]], {"a": 1}])
def test_values_that_cannot_be_told_apart_are_refused(value: Any) -> None:
    """As with amounts."""
    session = Session(contracts=[max_distinct("send", "to", 3)])

    assert not session.reserve("send", {"to": value}).allowed


def test_each_element_of_a_list_is_a_value() -> None:
    """Ten recipients in one call are ten recipients."""
    session = Session(contracts=[max_distinct("send", "to", 3)])

    assert session.reserve("send", {"to": ["a", "b", "a"]}).allowed
    assert session.reserve("send", {"to": {"b"}}).allowed
    assert session.reserve("send", {"to": []}).allowed
    assert not session.reserve("send", {"to": ["c", "d"]}).allowed
    assert session.reserve("send", {"to": ("a", "c")}).allowed
    assert not session.reserve("send", {"to": "d"}).allowed


ITEMS = {"items": [{"id": "a", "amount": 1}, {"id": "b", "amount": 2.5}]}


@pytest.mark.parametrize(
    ("field", "args", "left"),
    [
        pytest.param("items.*.amount", ITEMS, "1.5 left of 5", id="the sum of all"),
        pytest.param("amounts.*", {"amounts": [0.1, 0.1, 0.1]}, "4.7 left of 5", id="a list of numbers"),
        pytest.param(
            "by_name.*.n", {"by_name": {"x": {"n": 1}, "y": {"n": 2}}}, "2 left of 5", id="a mapping"
        ),
        pytest.param("a.*.b.*", {"a": [{"b": [1, 2]}, {"b": []}]}, "2 left of 5", id="lists in lists"),
        pytest.param("items.*.amount", {"items": []}, "5 left of 5", id="none of them"),
        pytest.param("*", {"x": 1, "y": 2}, "2 left of 5", id="all arguments"),
    ],
)
def test_the_amounts_of_all(field: str, args: dict[str, Any], left: str) -> None:
    """A call of many parts counts as all of them."""
    session = Session(contracts=[at_most_total("pay", field, 5)])
    session.call("pay", args)

    refusal = session.reserve("pay", {field: 99}).refusal

    assert refusal is not None
    assert refusal.broken[0].remaining == left


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        pytest.param({}, "is missing", id="no list"),
        pytest.param({"items": "text"}, "is missing", id="text"),
        pytest.param({"items": [{"amount": 1}, {}]}, "is missing in one of them", id="one without"),
        pytest.param({"items": [{"amount": "1"}]}, "is not a number", id="one that is text"),
        pytest.param({"items": [{"amount": 2}, {"amount": -1}]}, "is negative", id="one below zero"),
        pytest.param(
            {"items": [{"amount": 1}, object()]},
            "cannot be looked into (opaque)",
            id="one unseen",
        ),
        pytest.param(
            {**ITEMS, "items.*.amount": 1},
            "is there twice, as a name and as a path",
            id="two of them",
        ),
    ],
)
def test_the_amounts_of_all_where_one_is_none(args: dict[str, Any], fault: str) -> None:
    """What cannot be added up is not let through."""
    session = Session(contracts=[at_most_total("pay", "items.*.amount", 500)])

    refusal = session.reserve("pay", args).refusal

    assert refusal is not None
    assert refusal.broken[0].fault == f"items.*.amount {fault}"


def test_the_different_values_of_all() -> None:
    """Each of them counts, in lists too."""
    session = Session(contracts=[max_distinct("send", "mails.*.to", 3)])

    assert session.reserve("send", {"mails": [{"to": "a"}, {"to": ["b", " a"]}]}).allowed
    assert not session.reserve("send", {"mails": [{"to": "c"}, {"to": "d"}]}).allowed
    assert session.reserve("send", {"mails": [{"to": "c"}]}).allowed


def test_a_pattern_over_all() -> None:
    """One is enough, and one without the field is not searched."""
    ban = at_most_n_times(matching("edit", "^/etc/", field="edits.*.path"), 0)
    anywhere = at_most_n_times(matching("run", "rm -rf", field="*"), 0)
    session = Session(contracts=[ban, anywhere])

    assert session.reserve("edit", {"edits": [{"path": "/tmp/x"}, {"text": "/etc/"}]}).allowed
    assert not session.reserve("edit", {"edits": [{"text": "x"}, {"path": "/etc/passwd"}]}).allowed
    assert session.reserve("edit", {"edits": "/etc/"}).allowed
    assert not session.reserve("run", {"script": {"steps": ["ls", "rm -rf /"]}}).allowed
    assert session.reserve("run", {"script": "ls"}).allowed
