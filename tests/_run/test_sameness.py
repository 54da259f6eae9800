"""Comparing what was judged with what is about to run."""

from __future__ import annotations

import copy
import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt._run.sameness import canonical


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
    assert canonical({"a": [one]}) != canonical({"a": [other]})
    assert canonical({"a": [one]}) == canonical({"a": [one]})


@pytest.mark.parametrize("value", [Plain([1]), Silent(1), Slotted(), iter([1]), {Plain(1)}, {1: Plain(2)}])
def test_a_copy_is_the_same(value: Any) -> None:
    """Whatever its address is: arguments are judged as a copy."""
    assert canonical({"a": value}) == canonical({"a": copy.deepcopy(value)})


def test_the_order_of_keys_does_not_count() -> None:
    """Nor does the kind of a sequence."""
    assert canonical({"a": 1, "b": (2,)}) == canonical({"b": [2], "a": 1})
