"""Values as they are recorded."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import pickle
import threading
import uuid
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.codec import is_plain, plain_json
from openbox_agentrt._plain.freezing import freeze
from openbox_agentrt._plain.walk import Json
from openbox_agentrt.evidence.canonical import canonical


class Colour(enum.Enum):
    RED = 1


class Size(enum.StrEnum):
    SMALL = "small"


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    def __str__(self) -> str:
        raise RuntimeError("must not be called")


class Number(int):
    def __int__(self) -> int:
        raise RuntimeError("must not be called")


class Real(float):
    def __float__(self) -> float:
        raise RuntimeError("must not be called")


@dataclasses.dataclass
class Account:
    owner: str
    balance: decimal.Decimal


@dataclasses.dataclass(slots=True)
class Half:
    here: int
    gone: int


class Struct(msgspec.Struct):
    name: str


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str


class Attrs:
    """What attrs makes of a class, as far as it can be seen from outside."""

    __attrs_attrs__ = (type("Attribute", (), {"name": "name"})(),)

    def __init__(self) -> None:
        self.name = "n"


class Silent:
    pass


class Speaking:
    def __repr__(self) -> str:
        return f"<Speaking at {id(self):#x}>"


class Raising:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class RaisingMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return 1


class LyingClass:
    @property  # type: ignore[misc]  # lying is the point
    def __class__(self) -> type:
        raise RuntimeError("must not be asked")


class Nameless(type):
    @property
    def __module__(cls) -> str:  # type: ignore[override]  # raising is the point
        raise RuntimeError("must not be asked")


class OfNameless(metaclass=Nameless):
    pass


Point = namedtuple("Point", "x y")
HERE = __name__


def half() -> Half:
    value = Half(1, 2)
    del value.gone
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(True, True, id="true"),
        pytest.param(-3, -3, id="int"),
        pytest.param(2**70, 2**70, id="int of more than 64 bits"),
        pytest.param(1.5, 1.5, id="float"),
        pytest.param("text", "text", id="text"),
        pytest.param("Grüße 😀", "Grüße 😀", id="text beyond ascii"),
        pytest.param({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, id="json"),
        pytest.param((1, (2,)), [1, [2]], id="tuple"),
        pytest.param(Point(1, 2), [1, 2], id="named tuple"),
        pytest.param(deque([1, 2]), [1, 2], id="deque"),
        pytest.param(OrderedDict(a=1), {"a": 1}, id="dict subclass"),
        pytest.param(MappingProxyType({"a": 1}), {"a": 1}, id="read-only mapping"),
        pytest.param({1: "a", 10: "b", 2: "c"}, {"1": "a", "10": "b", "2": "c"}, id="int keys"),
        pytest.param({None: 1, True: 2, 1.5: 3}, {"null": 1, "true": 2, "1.5": 3}, id="other scalar keys"),
        pytest.param({Name("k"): 1}, {"k": 1}, id="key of a text subclass"),
        pytest.param({1: "a", "1": "b"}, {"$mapping": [[1, "a"], ["1", "b"]]}, id="keys that collide"),
        pytest.param({(1, 2): 3}, {"$mapping": [[[1, 2], 3]]}, id="keys that are no text"),
        pytest.param(
            {10**700: 3}, {"$mapping": [[{"$int": hex(10**700)}, 3]]}, id="key that is a very long number"
        ),
        pytest.param({"$set": 1}, {"$mapping": [["$set", 1]]}, id="a mapping that looks like a mark"),
        pytest.param({"\ud800": 1}, {"$mapping": [[{"$text": "\\ud800"}, 1]]}, id="lone surrogate as a key"),
        pytest.param("a\ud800", {"$text": "a\\ud800"}, id="lone surrogate"),
        pytest.param(float("nan"), {"$float": "nan"}, id="nan"),
        pytest.param(float("-inf"), {"$float": "-inf"}, id="infinity"),
        pytest.param(10**700, {"$int": hex(10**700)}, id="very long number"),
        pytest.param(b"hi", {"$bytes": "aGk="}, id="bytes"),
        pytest.param(bytearray(b"hi"), {"$bytes": "aGk="}, id="bytearray"),
        pytest.param(memoryview(b"hi"), {"$bytes": "aGk="}, id="memoryview"),
        pytest.param({"b", "a", "c"}, {"$set": ["a", "b", "c"]}, id="set"),
        pytest.param(frozenset({2, 1}), {"$set": [1, 2]}, id="frozenset"),
        pytest.param({1, "a", None}, {"$set": ["a", 1, None]}, id="set of several types"),
        pytest.param(Name("n"), "n", id="text subclass"),
        pytest.param(Number(4), 4, id="int subclass"),
        pytest.param(Real(1.5), 1.5, id="float subclass"),
        pytest.param(Size.SMALL, "small", id="text enum"),
        pytest.param(Level.HIGH, 3, id="int enum"),
        pytest.param(Colour.RED, {"$object": f"{HERE}.Colour", "text": "Colour.RED"}, id="enum"),
        pytest.param(decimal.Decimal("1.50"), "1.50", id="decimal"),
        pytest.param(fractions.Fraction(1, 3), "1/3", id="fraction"),
        pytest.param(datetime.date(2026, 1, 2), "2026-01-02", id="date"),
        pytest.param(datetime.timedelta(seconds=1), "0:00:01", id="timedelta"),
        pytest.param(uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001", id="uuid"),
        pytest.param(pathlib.PurePosixPath("/a"), "/a", id="path"),
        pytest.param(
            Account("ann", decimal.Decimal("2.5")), {"owner": "ann", "balance": "2.5"}, id="dataclass"
        ),
        pytest.param(half(), {"here": 1}, id="dataclass with a field that is not set"),
        pytest.param(Struct(name="n"), {"name": "n"}, id="msgspec struct"),
        pytest.param(Model(name="n", more=1), {"name": "n", "more": 1}, id="pydantic model with an extra"),  # type: ignore[call-arg]  # an extra field
        pytest.param(Attrs(), {"name": "n"}, id="attrs class"),
        pytest.param(Silent(), {"$object": f"{HERE}.Silent"}, id="object without a text of its own"),
        pytest.param(Speaking(), {"$object": f"{HERE}.Speaking", "text": "<Speaking>"}, id="memory address"),
        pytest.param(
            len,
            {"$object": "builtins.builtin_function_or_method", "text": "<built-in function len>"},
            id="function",
        ),
        pytest.param(Account, {"$object": "builtins.type", "text": f"<class '{HERE}.Account'>"}, id="class"),
        pytest.param(
            Raising(), {"$error": "RuntimeError", "$object": f"{HERE}.Raising"}, id="object that raises"
        ),
        pytest.param(
            RaisingMapping(),
            {"$error": "ZeroDivisionError", "$object": f"{HERE}.RaisingMapping"},
            id="mapping that raises",
        ),
        pytest.param(LyingClass(), {"$object": f"{HERE}.LyingClass"}, id="object that lies about its class"),
        pytest.param(OfNameless(), {"$object": "?"}, id="class without a name"),
        pytest.param(
            type("é", (), {"__module__": "m"})(),
            {"$object": "m.\\xe9"},
            id="class with a name beyond ascii",
        ),
    ],
)
def test_a_value_is_recorded_as(value: object, expected: Json) -> None:
    """Every kind of value has one form, and looking at it runs no code that its type makes needless."""
    frozen = freeze(value)

    assert frozen == expected
    assert json.loads(json.dumps(frozen, allow_nan=False)) == frozen


def test_a_lock_is_recorded_without_its_address() -> None:
    """What stands for an object is the same in every process."""
    assert freeze(threading.Lock()) == {"$object": "_thread.lock", "text": "<unlocked _thread.lock object>"}


def test_a_container_inside_itself_ends() -> None:
    """A cycle is recorded as one, for each kind of container."""
    items: list[Any] = []
    items.append({"again": items})
    account = Account("ann", decimal.Decimal(1))
    account.owner = account  # type: ignore[assignment]  # a cycle is the point

    assert freeze(items) == [{"again": {"$cycle": "builtins.list"}}]
    assert freeze(account) == {"owner": {"$cycle": f"{HERE}.Account"}, "balance": "1"}


def test_a_container_that_is_there_twice_is_no_cycle() -> None:
    """Only what is inside itself is a cycle."""
    shared = [1]

    assert freeze({"a": shared, "b": shared, "c": object}) == {
        "a": [1],
        "b": [1],
        "c": {"$object": "builtins.type", "text": "<class 'object'>"},
    }


def test_deep_nesting_is_cut() -> None:
    """What is nested more than 64 times is not recorded, and that it was there is."""
    value: Any = "bottom"
    for _ in range(100):
        value = [value]

    frozen: Any = freeze(value)
    for _ in range(64):
        (frozen,) = frozen

    assert frozen == {"$cut": "depth"}


def test_a_set_is_cut_like_a_list() -> None:
    """Depth counts for sets too."""
    value: Any = {1}
    for _ in range(64):
        value = [value]

    frozen: Any = freeze(value)
    for _ in range(64):
        (frozen,) = frozen

    assert frozen == {"$cut": "depth"}


def test_a_value_that_unfolds_without_end_is_cut() -> None:
    """Sharing makes a small value unfold into 2**60 nodes: the record stays small."""
    value: Any = [object()]
    for _ in range(60):
        value = [value, value]

    assert len(json.dumps(freeze(value))) < 5_000_000


def test_a_very_long_list_is_cut() -> None:
    """The record holds the beginning and says that there was more."""
    frozen: Any = freeze(list(range(200_000)))

    assert frozen[:2] == [0, 1]
    assert frozen[-1] == {"$cut": "size"}
    assert len(frozen) == 100_001


def test_a_very_long_set_is_cut() -> None:
    """A set is cut like a list."""
    frozen: Any = freeze(set(range(200_000)))

    assert {"$cut": "size"} in frozen["$set"]
    assert len(frozen["$set"]) == 100_001


def test_a_very_long_mapping_is_cut() -> None:
    """A mapping is cut like a list."""
    frozen: Any = freeze(dict.fromkeys(map(str, range(200_000)), object))

    assert frozen["$cut"] == "size"
    assert len(frozen) == 100_001


def test_what_has_to_be_cut_is_not_plain() -> None:
    """The short cut for plain data is not taken for what has to be cut."""
    deep: Any = 1
    for _ in range(70):
        deep = [deep]

    assert not is_plain(list(range(200_000)))
    assert not is_plain(deep)


def test_a_change_by_another_thread_is_no_obstacle() -> None:
    """What cannot be written at once is taken the long way."""

    def interrupted(value: object) -> bytes:
        raise RuntimeError("dictionary changed size during iteration")

    assert plain_json({"a": 1}, interrupted) is None


def test_pairs_that_are_too_many_are_cut() -> None:
    """A mapping in its long form is cut as well."""
    frozen: Any = freeze({(number,): number for number in range(150_000)})

    assert frozen["$cut"] == "size"
    assert len(frozen["$mapping"]) <= 100_000


@pytest.mark.parametrize("value", ["x" * 7_000_000, b"x" * 7_000_000], ids=["text", "bytes"])
def test_very_long_text_is_cut(value: str | bytes) -> None:
    """Of very long text the beginning, the length and the hash are recorded."""
    frozen: Any = freeze([value])

    assert frozen[0]["$cut"] == "size"
    assert frozen[0]["length"] >= 7_000_000
    assert len(frozen[0]["sha256"]) == 64
    assert len(frozen[0]["start"]) == 256


def test_a_record_does_not_change_with_what_it_was_taken_from() -> None:
    """Later changes to arguments do not reach the record."""
    args = {"ids": [1]}
    frozen = freeze(args)

    args["ids"].append(2)

    assert frozen == {"ids": [1]}


# A name that stands for what JSON cannot hold is written at length; there is a test of its own for that.
NAME = st.text().filter(lambda name: not name.startswith("$"))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAME, inner),
    max_leaves=20,
)


@given(PLAIN)
def test_json_data_stays_as_it_is(value: Json) -> None:
    """What can be written as JSON is recorded as it is."""
    assert freeze(value) == value


class Tagged:
    """Any object; part of the values below."""


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(categories=None))  # surrogates too
    | st.binary()
    | st.decimals()
    | st.builds(Tagged)
    | st.builds(Raising)
    | st.sampled_from([*Colour, *Size]),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.tuples(st.integers()), inner)
        | st.sets(st.integers() | st.text())
    ),
    max_leaves=20,
)


@given(ANYTHING)
def test_anything_becomes_json_data_that_survives_a_reload(value: object) -> None:
    """Whatever is frozen can be written strictly and reads back the same, order included."""
    frozen = freeze(value)

    text = json.dumps(frozen, allow_nan=False, sort_keys=True)
    text.encode("utf-8")
    assert json.loads(text) == frozen
    assert json.dumps(json.loads(text), sort_keys=True) == text


@given(ANYTHING)
def test_what_is_plain_freezes_to_itself(value: object) -> None:
    """The short cut for plain data is taken only where it gives what the long way gives."""
    if plain_json(value, msgspec.json.encode) is not None:
        # An object beside it forces the long way.
        long: Any = freeze([value, Tagged()])
        assert json.dumps(long[0]) == json.dumps(value)
        assert json.dumps(freeze(value)) == json.dumps(value)


def test_what_is_frozen_is_frozen_once() -> None:
    """A violation is frozen when it is taken, and again when it is written: marks are not marked."""
    once = freeze({"a": {1, 2}, "b": b"x", "n": float("nan"), "o": object(), 1: {"$set": 1}})

    assert freeze(once) == once
    assert canonical(once) == canonical(freeze(once))
    assert pickle.loads(pickle.dumps(once)) == once
    assert freeze({"$set": [1]}) == {"$mapping": [["$set", [1]]]}
