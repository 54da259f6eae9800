"""Comparing what was judged with what is about to run."""

from __future__ import annotations

import copy
import dataclasses
import enum
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._activity.judged_input import JudgedInput, snapshot
from openbox_agentrt._plain.same import same_text


class Plain:
    """Without a text of its own: its default text holds its address."""

    def __init__(self, x: Any) -> None:
        self.x = x


class Silent(Plain):
    """Its text cannot be had, and hides what it holds."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Slotted:
    __slots__ = ()


@dataclasses.dataclass
class Locked:
    name: str
    lock: Any = dataclasses.field(default_factory=threading.Lock)


def deep(leaf: object, levels: int = 3000) -> dict[str, Any]:
    for _ in range(levels):
        leaf = {"k": leaf}
    return {"a": leaf}


def cyclic(leaf: object) -> dict[str, Any]:
    value: dict[str, Any] = {"leaf": leaf}
    value["self"] = value
    return value


PAIRS: dict[str, tuple[Any, Any]] = {
    "numbers": (1, 2),
    "a truth and a number": (1, True),
    "bytes": (b"a", b"b"),
    "bytes and text": (b"a", "a"),
    "objects without a text": (Plain(1), Plain(2)),
    "objects whose text fails": (Silent(1), Silent(2)),
    "paths": (Path("/a"), Path("/b")),
    "sets": ({1, 2}, {1, 3}),
    "depth": (deep(1), deep(2)),
    "cycles": (cyclic(1), cyclic(2)),
    "keys of two types": ({1: "a", "b": 2}, {1: "a", "b": 3}),
    "huge numbers": (10**5000, 10**5000 + 1),
    "large texts": ("x" * 2_000_000 + "a", "x" * 2_000_000 + "b"),
    "lone surrogates": ("\ud800", "\ud801"),
    "locks": (Locked("a"), Locked("b")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_differs_is_told_apart(name: str) -> None:
    """However it is nested."""
    one, other = PAIRS[name]
    assert same_text({"a": [one]}) != same_text({"a": [other]})
    assert same_text({"a": [one]}) == same_text({"a": [one]})
    assert not JudgedInput({"a": [one]}, shared=False).is_same({"a": [other]})
    assert JudgedInput({"a": [one]}, shared=False).is_same({"a": [one]})


@pytest.mark.parametrize("value", [Plain([1]), Silent(1), Slotted(), iter([1]), {Plain(1)}, {1: Plain(2)}])
def test_a_copy_is_the_same(value: Any) -> None:
    """Whatever its address is: arguments are judged as a copy."""
    assert same_text({"a": value}) == same_text({"a": copy.deepcopy(value)})


def test_the_order_of_keys_does_not_count() -> None:
    """Nor does the kind of a sequence."""
    assert same_text({"a": 1, "b": (2,)}) == same_text({"b": [2], "a": 1})


class Number(enum.IntEnum):
    """To JSON, its members are numbers."""

    ONE = 1


values = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 0.0, -0.0, 1.0, float("nan"), "1", "", b"1", Number.ONE, (1,), {1}])
    | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", 1, True]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(one=values, other=values)
def test_plain_data_is_compared_as_its_canonical_text(one: Any, other: Any) -> None:
    """The short way says what the long one says."""
    same = same_text(one) == same_text(other)

    assert JudgedInput(one, shared=False).is_same(other) == same
    assert JudgedInput(one, shared=True).is_same(other) == same
    assert JudgedInput(one, shared=False).is_same(copy.deepcopy(one))


@given(value=values)
def test_a_snapshot_is_the_same(value: Any) -> None:
    """Of the same types, too, since it is what conditions and redactions see."""
    assert repr(snapshot(value)[0]) == repr(value)


def test_a_snapshot_does_not_change() -> None:
    """Nor does what is judged of something that others hold."""
    inner: list[Any] = [1]
    value: dict[str, Any] = {"plain": inner, "kept": (inner, {"x": inner})}
    (taken, private), judged = snapshot(value), JudgedInput(value, shared=True)

    inner.append(2)

    assert not private, "there is a tuple in it: it was copied by its own means"
    assert taken == {"plain": [1], "kept": ([1], {"x": [1]})}
    assert judged.is_same(taken)
    assert not judged.is_same(value)


def test_a_snapshot_of_live_objects_is_the_original() -> None:
    """It is compared before it is used."""
    value = {"a": [1], "lock": threading.Lock()}
    copied, private = snapshot(value)

    assert copied is value
    assert not private


class Itself:
    """An object that is its own copy."""

    def __deepcopy__(self, memo: object) -> Itself:
        return self


@pytest.mark.parametrize(
    ("value", "private"),
    [
        pytest.param({"a": [1, {"b": None}]}, True, id="plain data"),
        pytest.param({"a": Itself()}, False, id="an object that is its own copy"),
        pytest.param({"a": {1, 2}}, False, id="a set"),
        pytest.param({"a": [[0] * 200] * 200}, False, id="more than is copied quickly"),
    ],
)
def test_only_what_was_copied_here_is_private(value: Any, private: bool) -> None:
    """Whatever else an object says of a copy, somebody may hold what is in it."""
    assert snapshot(value)[1] is private


def test_what_is_large_by_sharing_is_copied_in_time() -> None:
    """As `copy.deepcopy` does, which copies what is shared once."""
    value: list[Any] = [0]
    for _ in range(14):
        value = [value] * 60

    copied, _ = snapshot({"a": value})

    assert copied["a"][0][0] is copied["a"][1][0]


class Claims(str):
    """A key that says that it is another one."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash("path")

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("key", [Claims("shadow"), Number.ONE, 1], ids=["claims", "enum", "number"])
def test_a_key_of_another_type_is_another_key(key: Any) -> None:
    """What it says of itself does not count."""
    assert not JudgedInput({"path": "/tmp"}, shared=False).is_same({key: "/tmp"})
