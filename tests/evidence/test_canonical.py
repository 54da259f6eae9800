"""Bytes that are the same for the same values."""

import json
from typing import Any

import pytest
from acel.evidence import _canonical as published
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.freezing import freeze
from openbox_agentrt.evidence.canonical import canonical, decoded, legacy_canonical

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_format_1_bytes_are_the_published_ones(value: dict[str, Any]) -> None:
    """Format 1 is encoded byte for byte as acel-core encodes it."""
    assert legacy_canonical(value) == published(value)


@given(JSON)
def test_the_short_way_gives_the_bytes_of_the_long_way(value: Any) -> None:
    """How a value gets encoded makes no difference to its bytes."""

    class Unknown:
        pass

    # An object in it forces the long way.
    long = canonical([value, Unknown()])

    assert long.startswith(b"[" + canonical(value) + b",")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"b": 1, "a": [1.5, None]}, b'{"a":[1.5,null],"b":1}', id="sorted, no spaces"),
        pytest.param("é", '"é"'.encode(), id="utf-8"),
        pytest.param("\ud800", b'{"$text":"\\\\ud800"}', id="lone surrogate"),
        pytest.param({2: 1, 10: 1}, b'{"10":1,"2":1}', id="int keys in the order of a reload"),
        pytest.param({"$set": 1}, b'{"$mapping":[["$set",1]]}', id="mark"),
        pytest.param(float("nan"), b'{"$float":"nan"}', id="nan"),
        pytest.param([10**5000], b'[{"$int":"%b"}]' % hex(10**5000).encode(), id="very long number"),
    ],
)
def test_format_2_bytes(value: Any, expected: bytes) -> None:
    """Format 2 is sorted, without spaces, and strict."""
    assert canonical(value) == expected


def test_large_text_is_cut() -> None:
    """The short way does not get text past the bound of a record."""
    assert len(canonical({"text": "x" * 8_000_000})) < 2_000_000


def test_text_up_to_the_bound_is_kept() -> None:
    """Text that is large and allowed is recorded whole."""
    assert decoded(canonical({"text": "x" * 3_000_000})) == {"text": "x" * 3_000_000}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{", id="cut"),
        pytest.param(b"NaN", id="nan"),
        pytest.param(b"1e999", id="number out of range"),
        pytest.param(b'"\\ud800"', id="lone surrogate"),
        pytest.param(b'"\xff"', id="not utf-8"),
        pytest.param(b"[" * 100_000, id="too deep"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_reading_is_strict(data: bytes) -> None:
    """What is not JSON is refused with one kind of error."""
    with pytest.raises(ValueError, match=r"."):
        decoded(data)


def test_a_deep_value_is_cut_and_not_refused() -> None:
    """A value that no reader could read back is not written."""
    value: Any = 1
    for _ in range(500):
        value = [value]

    assert json.loads(canonical(value)) == freeze(value)
