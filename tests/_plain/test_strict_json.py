"""JSON in the one reading that all readers share."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.strict_json import JsonError, read_json


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        pytest.param('{"a": 1,\n "a": 2}', "'a' is there twice", 2, id="repeated"),
        pytest.param('{"a": {"b": 1},\n"b": {"a": 1,\n"\\u0061": 2}}', "'a' is there twice", 3, id="spelled"),
        pytest.param('[{"a": "a"}, {"b": "a",\n\n"b": 1}]', "'b' is there twice", 3, id="text like a name"),
        pytest.param('{"a":\n NaN}', "NaN is not a JSON number", 2, id="NaN"),
        pytest.param('["NaN",\n-Infinity]', "-Infinity is not a JSON number", 2, id="infinity"),
        pytest.param('["1e999",\n1e999]', "1e999 is too large", 2, id="beyond a float"),
        pytest.param('{"a": 1,\n b}', "column 2", 2, id="syntax"),
        pytest.param("", "column 1", 1, id="nothing"),
        pytest.param('{"a": 1} x', "extra data", 1, id="more than one"),
        pytest.param("[" * 100_000, "nested too deeply", None, id="deep"),
        pytest.param("9" * 5000, "a number is too long", None, id="long"),
        pytest.param(b'["\xff"]', "not UTF-8", 1, id="bytes"),
    ],
)
def test_what_readers_disagree_about_is_refused(text: str | bytes, reason: str, line: int | None) -> None:
    """With the line where that can be told."""
    with pytest.raises(JsonError) as caught:
        read_json(text)

    assert reason in str(caught.value)
    assert caught.value.line == line


def test_the_error_survives_pickling() -> None:
    """With what it carries."""
    with pytest.raises(JsonError) as caught:
        read_json('{"a": 1, "a": 2}')
    copy = pickle.loads(pickle.dumps(caught.value))

    assert (copy.reason, copy.line, copy.repeated) == ("'a' is there twice", 1, "a")


def test_a_reader_of_other_peoples_logs_takes_their_numbers() -> None:
    """Where NaN was written, it is read."""
    assert repr(read_json("[NaN, 1e999]", finite=False)) == "[nan, inf]"


def test_a_caller_may_build_objects_itself() -> None:
    """It then sees each pair."""
    assert read_json('{"a": 1, "a": 2}', build=list) == [("a", 1), ("a", 2)]


def test_bytes_may_begin_with_a_mark() -> None:
    """Editors on some systems put it there."""
    assert read_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_read_as_written(value: Any) -> None:
    """What is not refused is what was written."""
    assert read_json(json.dumps(value)) == value
