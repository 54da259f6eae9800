"""Dataclasses whose methods are made late: what they are is what `dataclasses` makes of the same class."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from openbox_agentrt import _values
from openbox_agentrt._values import _FEW, dataclass, field


@dataclass(frozen=True, slots=True)
class Late:
    """A value."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list, compare=False)
    label: str = field(default="", kw_only=True, repr=False)
    twice: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", self.x * 2)


@dataclass(kw_only=True)
class Changeable:
    """One that can be changed."""

    x: int
    y: list[int] = field(default_factory=list)


def made(decorate: Callable[..., Any], describe: Callable[..., Any]) -> type[Any]:
    """Make the same class in one of both ways."""

    @decorate(frozen=True, slots=True)
    class Point:
        """A value."""

        x: int
        y: int = 2
        names: list[str] = describe(default_factory=list, compare=False)
        label: str = describe(default="", kw_only=True, repr=False)

    return Point


ASKED: dict[str, Callable[[type[Any]], Any]] = {
    "its text": lambda cls: repr(cls(1, label="x")),
    "equal": lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1) == 1, cls(1, names=["a"]) == cls(1)),
    "its hash": lambda cls: hash(cls(1, 3, label="x")),
    "its fields": lambda cls: [(f.name, f.compare, f.kw_only) for f in dataclasses.fields(cls)],
    "the fields of a value": lambda cls: [f.name for f in dataclasses.fields(cls(1))],
    "whether it is one": lambda cls: (dataclasses.is_dataclass(cls), dataclasses.is_dataclass(cls(1))),
    "another with a change": lambda cls: repr(dataclasses.replace(cls(1), y=5)),
    "all of it": lambda cls: dataclasses.asdict(cls(1, names=["a"])),
    "its slots": lambda cls: (cls.__slots__, hasattr(cls(1), "__dict__")),
    "what a pattern matches": lambda cls: cls.__match_args__,
    "its parameters": lambda cls: cls.__dataclass_params__.frozen,
    "a copy": lambda cls: copy.deepcopy(cls(1, names=["a"])).names,
    "its own list": lambda cls: cls(1).names is cls(1).names,
}
REFUSED: dict[str, Callable[[type[Any]], Any]] = {
    "too few": lambda cls: cls(),
    "too many": lambda cls: cls(1, 2, [], "x"),
    "twice": lambda cls: cls(1, x=1),
    "unknown": lambda cls: cls(1, z=1),
    "set": lambda cls: setattr(cls(1), "x", 2),
    "deleted": lambda cls: delattr(cls(1), "x"),
    "unhashable": lambda cls: hash(cls([])),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_late_class_is_what_dataclasses_makes(name: str) -> None:
    """Whatever is asked of it first."""
    late, real = made(dataclass, field), made(dataclasses.dataclass, dataclasses.field)

    assert ASKED[name](late) == ASKED[name](real)
    assert ASKED[name](late) == ASKED[name](real), "and asked again"


@pytest.mark.parametrize("name", REFUSED)
def test_a_late_class_refuses_what_dataclasses_refuses(name: str) -> None:
    """In the same words."""
    problems = []
    for cls in (made(dataclass, field), made(dataclasses.dataclass, dataclasses.field)):
        with pytest.raises((TypeError, AttributeError)) as error:
            REFUSED[name](cls)
        problems.append((error.type, str(error.value)))

    assert problems[0] == problems[1]


def test_many_values_have_the_methods_made() -> None:
    """A few are filled by a loop; where there are more, it is no longer in the way."""
    cls = made(dataclass, field)
    first = cls(0)
    loop = cls.__init__
    values = [cls(number) for number in range(_FEW + 1)]

    assert cls.__init__ is not loop
    assert values[0] == first
    assert [value.x for value in values] == list(range(_FEW + 1))


def test_what_follows_the_filling_is_done_once() -> None:
    """By the loop and by the method that is made."""
    early = Late(4)
    assert (early.twice, Late.kind, early.label) == (8, "point", "")
    assert dataclasses.fields(Late)
    assert Late(4) == early
    assert Late(4).twice == 8


def test_a_value_survives_pickling() -> None:
    """Whether it was made before its class had methods, or after."""
    assert pickle.loads(pickle.dumps(Late(1, 3, ["a"]))) == Late(1, 3, ["a"])


def test_one_that_can_be_changed_has_no_hash() -> None:
    """As with `dataclasses`."""
    value = Changeable(x=1)
    value.x = 2

    assert value == Changeable(x=2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)
    with pytest.raises(TypeError, match="positional"):
        Changeable(1)  # type: ignore[call-arg]


def test_a_class_and_a_value_do_not_load_dataclasses() -> None:
    """Which is what they are for."""
    code = (
        "import sys\n"
        "from openbox_agentrt._values import dataclass, field\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class Point:\n"
        "    x: 'int'\n"
        "    y: 'list' = field(default_factory=list)\n"
        "assert Point(1).x == 1 and isinstance(hash(Point(1, ())), int)\n"
        "assert 'dataclasses' not in sys.modules\n"
        "assert repr(Point(1)) == 'Point(x=1, y=[])'\n"
        "assert 'dataclasses' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


def test_the_door_names_both() -> None:
    """And nothing else."""
    assert _values.__all__ == ("dataclass", "field")
