"""Plain data, cut to a size."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.bounding import bounded, short_text, weight
from openbox_agentrt._plain.freezing import freeze

LETTER = "x" * 100_000

data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=20),
    max_leaves=25,
)


def held(value: Any) -> int:
    """What a value takes in memory, shared parts once."""
    seen: dict[int, int] = {}
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = sys.getsizeof(part)
            waiting += (
                [*part, *part.values()] if isinstance(part, dict) else part if isinstance(part, list) else []
            )
    return sum(seen.values())


def test_what_fits_is_the_same_object() -> None:
    """Nothing is copied without need."""
    value = freeze({"a": [1, 2], "b": "text"})

    assert bounded(value, 1_000) is value


def test_small_parts_stay_beside_a_large_one() -> None:
    """The large one goes by its length, its digest and its beginning."""
    args = freeze({"amount": 120, "customer": {"id": "c-1"}, "letter": LETTER, "lines": [1, 2]})

    assert bounded(args, 4_000) == {
        "amount": 120,
        "customer": {"id": "c-1"},
        "letter": {
            "$cut": "size",
            "length": 100_000,
            "sha256": hashlib.sha256(LETTER.encode()).hexdigest(),
            "start": "x" * 256,
        },
        "lines": [1, 2],
    }


def test_too_many_parts_go_as_one() -> None:
    """With the digest of their canonical JSON."""
    numbers: list[Any] = list(range(10_000))
    text = json.dumps(numbers, separators=(",", ":"))

    cut: Any = bounded({"n": 1, "all": numbers}, 4_000)

    start = cut["all"].pop("start")
    assert len(start) > 30
    assert text.startswith(start)
    assert cut == {
        "n": 1,
        "all": {
            "$cut": "size",
            "length": len(text),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        },
    }


@given(value=data, room=st.integers(min_value=600, max_value=3_000))
def test_nothing_weighs_more_than_its_room(value: Any, room: int) -> None:
    """And a mapping stays a mapping."""
    frozen = freeze(value)
    cut = bounded(frozen, room)

    assert weight(cut) <= room
    if isinstance(frozen, dict):
        assert isinstance(cut, dict)


@pytest.mark.parametrize(
    "value",
    [
        {"a": LETTER},
        {f"k{n}": n for n in range(5_000)},
        list(range(1_000, 30_000)),
        [["a"] * 10] * 1_000,
        {"a": {"b": {"c": {"d": [LETTER] * 5}}}},
        [{"x": n, "y": str(n)} for n in range(40)],
        {"t": [n / 7 for n in range(90)]},
    ],
    ids=["text", "mapping", "numbers", "lists", "deep", "rows", "floats"],
)
def test_what_is_kept_takes_no_more_memory_than_its_room(value: Any) -> None:
    """`weight` is an estimate of the memory, on the safe side."""
    assert held(json.loads(json.dumps(bounded(freeze(value), 4_000)))) < 6_000


def test_a_text_that_has_to_stay_one() -> None:
    """It keeps its beginning, and says what was cut."""
    digest = hashlib.sha256(LETTER.encode()).hexdigest()

    assert short_text("short") == "short"
    assert short_text(LETTER) == f"{'x' * 256}[cut: 100000 characters, sha256 {digest}]"
