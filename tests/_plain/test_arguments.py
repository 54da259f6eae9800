"""Arguments of a call as contracts see them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import json
import pathlib
import uuid
from collections import deque, namedtuple
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.arguments import plain, plain_args, plain_arguments, plain_value
from openbox_agentrt._plain.freezing import freeze
from openbox_agentrt._plain.unseen import Unseen, unseen_in
from openbox_agentrt._wire.payloads import json_safe


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Line:
    sku: str
    count: int


class Order(pydantic.BaseModel):
    customer: uuid.UUID
    total: decimal.Decimal
    lines: list[Line]


class Parcel(msgspec.Struct):
    weight: float


class Silent:
    pass


class Broken(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


class ForeignInteger:
    """An integer of another library, as NumPy has them."""

    def __int__(self) -> int:
        return 7


ID = uuid.UUID(int=7)
Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        pytest.param(Line("a", 2), {"sku": "a", "count": 2}, id="dataclass"),
        pytest.param(
            Order(customer=ID, total=decimal.Decimal("9.90"), lines=[Line("a", 2)]),
            {"customer": str(ID), "total": decimal.Decimal("9.90"), "lines": [{"sku": "a", "count": 2}]},
            id="model with models inside",
        ),
        pytest.param(Parcel(1.5), {"weight": 1.5}, id="msgspec"),
        pytest.param(Colour.RED, "red", id="enum"),
        pytest.param(Level.HIGH, 3, id="whole-number enum"),
        pytest.param(datetime.date(2026, 1, 2), "2026-01-02", id="date"),
        pytest.param(
            datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00+00:00", id="moment"
        ),
        pytest.param(datetime.timedelta(seconds=90), "0:01:30", id="duration"),
        pytest.param(ID, str(ID), id="UUID"),
        pytest.param(pathlib.PurePosixPath("/a/b"), "/a/b", id="path"),
        pytest.param(ipaddress.ip_address("10.0.0.1"), "10.0.0.1", id="address"),
        pytest.param(pydantic.HttpUrl("https://x.example/a"), "https://x.example/a", id="URL"),
        pytest.param(fractions.Fraction(1, 3), "1/3", id="fraction"),
        pytest.param({3, 1, 2}, [1, 2, 3], id="set"),
        pytest.param((1, [2, (3,)]), [1, [2, [3]]], id="tuples"),
        pytest.param(Point(1, 2), [1, 2], id="tuple with names"),
        pytest.param(deque([1]), [1], id="deque"),
        pytest.param(MappingProxyType({"a": Colour.RED}), {"a": "red"}, id="mapping of another kind"),
        pytest.param({1: "a", None: "b", Colour.RED: "c"}, {"1": "a", "null": "b", "red": "c"}, id="names"),
        pytest.param(b"rm -rf", "rm -rf", id="bytes that are text"),
        pytest.param(b"\xff\x00", b"\xff\x00", id="bytes that are not"),
        pytest.param(ValueError("no"), {"type": "ValueError", "message": "no"}, id="exception"),
        pytest.param(decimal.Decimal("0.1"), decimal.Decimal("0.1"), id="decimal"),
        pytest.param(Silent(), Unseen("opaque", f"{__name__}.Silent"), id="opaque"),
        pytest.param(pydantic.SecretStr("x"), Unseen("opaque", "pydantic.types.SecretStr"), id="secret"),
        pytest.param(Broken(), Unseen("unreadable"), id="unreadable"),
        pytest.param({1: "a", "1": "b"}, Unseen("unreadable"), id="two keys with one name"),
        pytest.param({(1, 2): "a"}, Unseen("unreadable"), id="a key without a name"),
    ],
)
def test_what_contracts_see(value: Any, seen: Any) -> None:
    """Each value in its plain form, at any depth, and as itself in arguments."""
    assert plain_value(value) == seen
    assert type(plain_value(value)) is type(seen)
    assert plain_arguments({"it": value, "in": [{"deep": value}]}) == {"it": seen, "in": [{"deep": seen}]}


def test_numbers_of_other_libraries() -> None:
    """A number that registers as one is that number."""
    import numbers

    numbers.Integral.register(ForeignInteger)

    assert plain_value([ForeignInteger()]) == [7]


def test_cycles_and_depth_end() -> None:
    """What cannot be followed to its end has a stand-in, and the rest is seen."""
    cycle: dict[str, Any] = {"n": 1}
    cycle["self"] = cycle
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]

    assert plain_arguments({"a": cycle}) == {"a": {"n": 1, "self": Unseen("cycle")}}
    assert list(unseen_in(plain_arguments({"a": deep, "b": 2}))) == [Unseen("too deep")]


def test_later_changes_do_not_reach_what_was_seen() -> None:
    """Neither to containers nor to objects."""
    line, items = Line("a", 1), [1]
    seen = plain_arguments({"line": line, "items": items})
    line.count = 9
    items.append(2)

    assert seen == {"line": {"sku": "a", "count": 1}, "items": [1]}


def test_the_engine_copies_containers_and_keeps_objects() -> None:
    """Conditions in code get the objects that a program passed."""
    line = Line("a", 1)
    given: dict[str, Any] = {"line": line, "t": ([line],), "s": {1}, "d": deque([1])}
    copied = plain_args(given)

    assert copied == given
    assert copied["line"] is line
    assert copied["t"] is not given["t"]
    assert copied["t"][0] is not given["t"][0]
    assert plain("x") == "x"


def test_a_stand_in_is_recorded_as_its_text() -> None:
    """In records and for Core, and it passes through a second reading as it is."""
    seen = plain_arguments({"a": Silent(), "b": Broken()})
    texts = {"a": f"<opaque {__name__}.Silent>", "b": "<unreadable>"}

    assert freeze(seen) == json_safe(seen) == texts
    assert plain_arguments(seen) == plain_args(seen) == seen


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_seen_as_it_is(value: Any) -> None:
    """What a model writes is JSON, and contracts see just that."""
    assert plain_value(value) == value
    assert json.loads(json.dumps(plain_value(value))) == json.loads(json.dumps(value))
