"""One customer has one budget, however the id is written."""

from __future__ import annotations

import unicodedata
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel import Session, at_most_n_times, max_distinct, must_precede, requires_state
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.match.keys import Fold, Key, key_text

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
    assert Key("b", "case").text == "b, fold=case"
