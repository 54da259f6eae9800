"""JSON by Python's own library: the bytes and the values of the fast one, whatever it is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from openbox_agentrt._plain.codec import Codec, Marked, codec
from openbox_agentrt._plain.standard_codec import standard_codec

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["0e+0", "\ud800", "\x7f\u2028", 1e16, 1e-5, 1e15, -0.0, 2**70, "\U0001f600"])
    | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(["\ue000", "\U0001f600", 1, None]), inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2).map(Marked)
    ),
    max_leaves=12,
)


def given_by(function: Any, value: Any) -> Any:
    try:
        return repr(function(value))
    except Exception as error:  # noqa: BLE001 - which one it is, is compared
        return ValueError if isinstance(error, ValueError) else type(error)


@given(VALUES)
def test_both_write_the_same_bytes(value: Any) -> None:
    """In the order of the names and in any, and with a function for what JSON does not have."""
    fast, standard = codec(), standard_codec(codec)

    for name in ("encode", "encode_sorted"):
        assert given_by(getattr(standard, name), value) == given_by(getattr(fast, name), value)
    assert given_by(standard.encoder_with(repr), value) == given_by(fast.encoder_with(repr), value)


@given(VALUES)
def test_both_read_the_same_values(value: Any) -> None:
    """Of what either of them has written."""
    try:
        data = codec().encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        reject()

    assert repr(standard_codec(codec).decode(data)) == repr(codec().decode(data))


@pytest.mark.parametrize(
    "data",
    [
        b"NaN",
        b"-Infinity",
        b"1e400",
        b'"\\ud800"',
        b'"\\uD83D\\uDE00"',
        b"\xff",
        b"\xef\xbb\xbf1",
        b"1 2",
        b'"\x01"',
    ],
)
def test_both_refuse_the_same_texts(data: bytes) -> None:
    """And read the others alike."""
    assert given_by(standard_codec(codec).decode, data) == given_by(codec().decode, data)


def test_what_is_usual_needs_no_other_library() -> None:
    """That is what it is for."""

    def none() -> Codec:
        raise AssertionError("the fast library is loaded")

    standard = standard_codec(none)
    value = {"args": Marked({"b": [1, 2.5, "\u00e9"], "a": None}), "hash": "3e4f"}

    assert standard.decode(standard.encode_sorted(value)) == value
    assert standard.encoder_with(repr)((1, "a", value, None))
