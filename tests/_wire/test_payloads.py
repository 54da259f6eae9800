"""Any value as JSON for the wire."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import json
import math
import pathlib
import threading
import uuid
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt._wire.payloads import MOST_VALUES, SMALL, _Converter, json_safe, safe_text, shown


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    def __str__(self) -> str:
        raise RuntimeError("never called")


class Whole(int):
    pass


class Fraction(float):
    pass


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Plain:
    pass


class Speaking:
    def __repr__(self) -> str:
        return "<Speaking at 0x7f00deadbeef>"


class Liar:
    """Says that it is a mapping, and breaks when it is asked for its items."""

    @property  # type: ignore[misc]  # lying about the class is the point
    def __class__(self) -> Any:
        raise RuntimeError("no")


class Nameless(type):
    @property
    def __module__(cls) -> Any:  # type: ignore[override]  # breaking is the point
        raise RuntimeError("no")


class Faceless(metaclass=Nameless):
    """Of a type that breaks when it is asked for its name."""


class BrokenMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


@dataclasses.dataclass
class Locked:
    name: str
    lock: Any = dataclasses.field(default_factory=threading.Lock)


class Model(pydantic.BaseModel):
    name: str
    password: pydantic.SecretStr


class Struct(msgspec.Struct):
    name: str


Point = namedtuple("Point", "x y")

CASES: dict[str, tuple[Any, Any]] = {
    "null": (None, None),
    "flag": (True, True),
    "text": ("abc\u00e4", "abc\u00e4"),
    "nan": (math.nan, None),
    "infinity": ([math.inf, -math.inf], [None, None]),
    "long number": (2**80, hex(2**80)),
    "64 bits": (2**64 - 1, 2**64 - 1),
    "very long number": (10**5000, hex(10**5000)),
    "lone surrogate": ("a\ud800b", "a\ufffdb"),
    "surrogate pair": ("\ud83d\ude00", "\U0001f600"),
    "surrogate key": ({"\ud800": 1}, {"\ufffd": 1}),
    "text as bytes": (b"abc", "abc"),
    "bytes": (b"\xff\x00", {"base64": "/wA="}),
    "bytearray": (bytearray(b"abc"), "abc"),
    "set": ({"b", "a", "c"}, ["a", "b", "c"]),
    "set of everything": ({1, "a", None}, ["a", 1, None]),
    "frozen set": (frozenset({2, 1}), [1, 2]),
    "tuple": ((1, (2,)), [1, [2]]),
    "named tuple": (Point(1, 2), [1, 2]),
    "deque": (deque([1]), [1]),
    "ordered": (OrderedDict(a=1), {"a": 1}),
    "view": (MappingProxyType({"a": 1}), {"a": 1}),
    "number key": ({1: "x"}, {"1": "x"}),
    "null key": ({None: 1, True: 2}, {"null": 1, "true": 2}),
    "tuple key": ({(1, 2): "x"}, {"[1, 2]": "x"}),
    "enum key": ({Colour.RED: 1}, {"red": 1}),
    "colliding keys": ({"1": "seen", 1: "hidden"}, {"1": "seen", "1#2": "hidden"}),
    "three colliding keys": ({"1": "a", 1: "b", Name("1#2"): "c"}, {"1": "a", "1#2": "b", "1#2#2": "c"}),
    "enum": (Colour.RED, "red"),
    "number subclasses": ([Level.HIGH + 1, Whole(3), Fraction(0.5), Fraction(math.nan)], [4, 3, 0.5, None]),
    "a key of a text subclass": ({Name("x"): 1}, {"x": 1}),
    "int enum": (Level.HIGH, 3),
    "text subclass": (Name("x"), "x"),
    "moment": (dt.datetime(2024, 1, 2, 3, 4, 5, 678901), "2024-01-02T03:04:05.678Z"),
    "moment elsewhere": (
        dt.datetime(2024, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2024-01-02T01:00:00.000Z",
    ),
    "day": (dt.date(2024, 1, 2), "2024-01-02"),
    "decimal": (decimal.Decimal("1.10"), "1.10"),
    "uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "path": (pathlib.PurePosixPath("/a/b"), "/a/b"),
    "dataclass with a lock": (Locked("x"), {"name": "x", "lock": "<unlocked _thread.lock object>"}),
    "model": (Model(name="x", password="hunter2"), {"name": "x", "password": "**********"}),  # type: ignore[arg-type]  # pydantic converts
    "struct": (Struct("x"), {"name": "x"}),
    "exception": (ValueError("no"), {"type": "ValueError", "message": "no"}),
    "failing str": (Unspeakable(), f"<unreadable {__name__}.Unspeakable>"),
    "plain object": (Plain(), f"<{__name__}.Plain>"),
    "address": (Speaking(), "<Speaking>"),
    "lying class": ([Liar()], [f"<{__name__}.Liar>"]),
    "type that cannot say its name": (Faceless(), "<?>"),
    "broken mapping": ({"x": BrokenMapping()}, {"x": f"<unreadable {__name__}.BrokenMapping>"}),
    "type": (int, "<class 'int'>"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_value_becomes_json(name: str) -> None:
    """Each kind of value has one form, and an encoder takes it."""
    value, expected = CASES[name]

    result = json_safe(value)

    assert result == expected
    json.dumps(result, allow_nan=False).encode()


def test_a_generator_is_not_consumed() -> None:
    """Looking at a value does not use it up."""
    numbers = (n for n in range(3))

    assert "generator" in json_safe(numbers)
    assert list(numbers) == [0, 1, 2]


def test_a_cycle_ends() -> None:
    """A container inside itself is named, and the rest is kept."""
    value: dict[str, Any] = {"name": "x"}
    value["self"] = value

    assert json_safe(value) == {"name": "x", "self": "<cycle>"}


def test_the_same_value_twice_is_not_a_cycle() -> None:
    """Only a value inside itself is."""
    shared = [1]

    assert json_safe([shared, shared]) == [[1], [1]]


def test_deep_nesting_ends() -> None:
    """A thousand levels do not exhaust the stack, here or in the encoder behind."""
    value: Any = "bottom"
    for _ in range(5000):
        value = [value]

    assert "<too deep>" in json.dumps(json_safe(value))


def test_a_long_text_is_cut_visibly() -> None:
    """The beginning is kept, with the size and the hash of all of it."""
    text = "x" * 5_000_000

    result = json_safe({"prompt": text}, max_bytes=1_000)

    assert len(json.dumps(result)) < 1_200
    assert result["prompt"].startswith("xxx")
    assert f"5000000 bytes, sha256 {hashlib.sha256(text.encode()).hexdigest()}" in result["prompt"]


def test_text_of_many_bytes_is_cut_between_characters() -> None:
    """The cap is in bytes, and what is kept is text."""
    result = json_safe("\u00e4" * 1_000, max_bytes=101)

    assert result.startswith("\u00e4" * 50 + "[cut: 2000 bytes")


def test_a_long_list_is_cut_visibly() -> None:
    """The items that fit are kept, and one mark stands for the rest."""
    items = list(range(100_000))

    result, is_whole = shown(items, max_bytes=100)

    assert not is_whole
    assert result[:3] == [0, 1, 2]
    assert len(result) < 300
    rest = items[len(result) - 1 :]
    assert f"[cut: {len(rest)} items, sha256 " in result[-1]
    assert hashlib.sha256(msgspec.json.encode(rest)).hexdigest() in result[-1]


def test_a_long_mapping_is_cut_visibly() -> None:
    """Also when the rest holds what cannot be hashed."""
    result, is_whole = shown({**{str(n): n for n in range(10_000)}, "last": Plain()}, max_bytes=100)

    assert not is_whole
    assert len(result) < 300
    assert [key for key in result if "[cut: " in key] == [list(result)[-1]]
    assert "sha256" not in list(result)[-1]


@pytest.mark.parametrize(
    "large", ["x" * 2_000_000, ["x" * 900] * 5_000, {"x" * 900: 1}, list(range(1_000_000))]
)
def test_a_large_value_hides_nothing_beside_it(large: Any) -> None:
    """Wherever it stands: what is small comes first, and is whole."""
    small = {"path": "/etc/shadow", "mode": 0o777, "force": True, "owner": None, "key": b"k"}

    before, _ = shown({"content": large, **small})
    after, _ = shown({**small, "content": large})

    for result in (before, after):
        assert {name: result[name] for name in small} == {**small, "key": "k"}
    assert list(before) == ["content", *small]


def test_each_text_has_the_room_that_one_has() -> None:
    """The cap is for each of them."""
    texts = ["x" * 1_000, "y" * 1_000]

    assert shown(texts, max_bytes=1_000) == (texts, True)


def test_many_large_texts_are_cut_to_their_beginnings() -> None:
    """There is a bound for all of them; what is small goes through all the same."""
    texts = [letter * 10_000 for letter in "abcdefgh"]

    result, is_whole = shown([*texts, "small"], max_bytes=10_000)

    assert not is_whole
    assert result[: MOST_VALUES - 1] == texts[: MOST_VALUES - 1]
    assert all(len(text) < SMALL + 200 for text in result[MOST_VALUES:])
    assert [text[:9] for text in result] == [*(text[:9] for text in texts), "small"]


def too_deep() -> Any:
    value: Any = {"path": "/etc/shadow"}
    for _ in range(100):
        value = {"in": value}
    return value


class Closed:
    """Does not say what it is."""

    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("value", "is_whole"),
    [
        pytest.param("x" * 1_001, False, id="a long text"),
        pytest.param(b"x" * 1_001, False, id="long bytes"),
        pytest.param({"x" * 1_001: 1}, False, id="a long key"),
        pytest.param([[["x" * 1_001]]], False, id="a long text inside"),
        pytest.param(too_deep(), False, id="too deep"),
        pytest.param(Closed(), False, id="unreadable"),
        pytest.param("x" * 1_000, True, id="a text that fits"),
        pytest.param("[cut: 5 bytes]", True, id="a text that looks like a mark"),
        pytest.param({1, 2}, True, id="a set"),
        pytest.param(Plain(), True, id="an object"),
    ],
)
def test_what_is_missing_is_said(value: Any, is_whole: bool) -> None:
    """By what happened, and not by what a text looks like."""
    assert shown(value, max_bytes=1_000)[1] == is_whole
    assert shown({"a": [value]}, max_bytes=1_000)[1] == is_whole


def test_an_object_is_shown_with_all_of_its_text() -> None:
    """The end of it is as telling as its beginning."""

    class Long:
        def __str__(self) -> str:
            return "x" * 5_000 + " to /etc/shadow"

    assert json_safe(Long()).endswith("/etc/shadow")


def test_nothing_is_cut_below_the_cap() -> None:
    """Ordinary payloads arrive whole."""
    assert shown("x" * 999_000) == ("x" * 999_000, True)


def test_the_value_is_not_changed() -> None:
    """The tool still gets what the model wrote."""
    value = {"a": [1, {"b": math.nan}], "c": ("x", {"d": b"y"})}
    before = copy.deepcopy(value)

    result = json_safe(value)
    result["a"].append(2)

    assert str(value) == str(before)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)) | st.integers(), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(values, st.integers(0, 200))
def test_the_result_is_always_json_that_utf8_can_hold(value: Any, max_bytes: int) -> None:
    """Whatever the value and the cap."""
    text = json.dumps(json_safe(value, max_bytes=max_bytes), allow_nan=False, ensure_ascii=False)

    assert json.loads(text.encode()) == json_safe(value, max_bytes=max_bytes)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec=None)))
def test_text_that_is_safe_stays_the_same(text: str) -> None:
    """Replacing is idempotent, and only touches surrogates."""
    safe = safe_text(text)

    assert safe_text(safe) is safe
    assert (safe == text) == (not any(0xD800 <= ord(char) <= 0xDFFF for char in text))


class Word(str):
    """Text of another type."""

    __slots__ = ()


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=6)
    | st.sampled_from([2**63, -(2**63), 2**64, "\ud83d", "\ud83d\ude00", b"x", Word("word"), (1, 2), {1}])
)


@given(
    value=st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
            | st.tuples(inner, inner)
        ),
        max_leaves=15,
    ),
    max_bytes=st.integers(min_value=0, max_value=120) | st.just(1_000_000),
)
def test_plain_data_takes_a_short_way_to_the_same_place(value: Any, max_bytes: int) -> None:
    """What is JSON data already is copied quickly; nobody can tell from the result."""
    assert repr(json_safe(value, max_bytes=max_bytes)) == repr(_Converter(max_bytes).walk(value))


def test_the_short_way_makes_a_copy() -> None:
    """What is sent later is what it was, whatever is done to it meanwhile."""
    inner: list[Any] = [1]
    sent = json_safe({"a": inner, "b": {"c": inner}})

    inner.append(2)

    assert sent == {"a": [1], "b": {"c": [1]}}


def large_by_sharing(levels: int = 14) -> Any:
    """A few lists; written out, there would be more of them than a machine can write."""
    value: list[Any] = [0]
    for _ in range(levels):
        value = [value] * 60
    return value


@pytest.mark.parametrize("value", [large_by_sharing(), ["x" * 10_000] * 100_000], ids=["lists", "a text"])
def test_what_is_large_by_sharing_is_cut_in_time(value: Any) -> None:
    """Without looking at all of it."""
    shown = json.dumps(json_safe(value, max_bytes=10_000))

    assert "[cut: " in shown
    assert len(shown) < 1_000_000
