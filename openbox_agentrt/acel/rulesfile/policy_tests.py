"""
Tests of rules: calls, and what is expected of each. They stand in a rules file, or in a file beside it.

A call that says nothing is expected to be let through, so that no test passes because it never got to its
point.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from ..contracts.shapes import Field, Place, SpecError, check_kind, shaped
from .document import Document, read_document
from .errors import ConfigError

Expected: TypeAlias = Literal["allowed", "refused"]

_TEST = {
    "name": Field("text", required=True),
    "subject": Field("mapping"),
    "state": Field("mapping"),
    "calls": Field("list", required=True),
    "at_end": Field("list"),
}
_CALL = {
    "tool": Field("text", required=True),
    "args": Field("mapping"),
    "result": Field("any"),
    "outcome": Field("text", among=("ok", "failed")),
    "at": Field("number"),
    "expect": Field("text", among=("allowed", "refused")),
    "by": Field("text"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCall:
    """
    One call of a test.

    Attributes:
        tool: The tool.
        args: Its arguments.
        result: What it returns, if it is let through.
        succeeds: Whether it does, if it is let through.
        at: Seconds since the beginning of the test, or None for right after the call before.
        expect: What is expected of it.
        by: The contracts that have to be among those that it breaks.
        line: Where it stands.
    """

    __test__ = False  # it is no class of tests, whatever its name makes of it

    tool: str
    args: dict[str, Any]
    result: Any
    succeeds: bool
    at: float | None
    expect: Expected
    by: tuple[str, ...]
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTest:
    """
    Describe one test of the rules.

    Attributes:
        name: What it shows.
        subject: What the session is about.
        state: Further entries of the state that the session begins with.
        calls: The calls, in their order.
        at_end: The contracts that have to be unmet at the end, and no others; None where nothing is expected.
        file: Where it stands.
        line: The line.
    """

    name: str
    subject: dict[str, Any] | None
    state: dict[str, Any]
    calls: tuple[TestCall, ...]
    at_end: tuple[str, ...] | None
    file: str
    line: int | None


def read_policy_tests(path: str | os.PathLike[str], known: Collection[str]) -> tuple[PolicyTest, ...]:
    """
    Read the tests of a file strictly.

    Args:
        path: A rules file, or one that holds tests only.
        known: The ids of the contracts that a test may name, or their texts.

    Raises:
        ConfigError: If anything in the tests is not understood, or names a contract that there is not.
    """
    return policy_tests_of(read_document(path), known)


def policy_tests_of(document: Document, known: Collection[str]) -> tuple[PolicyTest, ...]:
    """
    Understand the tests of a file that was read.

    Raises:
        ConfigError: See `read_policy_tests`.
    """
    listed = document.data.get("tests", [])
    if not document.data.keys() & {"tests", "contracts", "groups", "only"}:
        raise ConfigError("holds no tests", path=document.name, line=document.line_of(()))
    try:
        check_kind(listed, "list", ("tests",))
        return tuple(_tests(document, listed, known))
    except SpecError as error:
        raise document.error(error) from error


def _tests(document: Document, listed: list[Any], known: Collection[str]) -> Iterator[PolicyTest]:
    seen: set[str] = set()
    for position, one in enumerate(listed):
        place: Place = ("tests", position)
        check_kind(one, "mapping", place)
        shape = shaped(one, _TEST, place)
        if shape["name"] in seen:
            raise SpecError(f"there is a test named {shape['name']!r:.80} already", (*place, "name"))
        seen.add(shape["name"])
        calls = tuple(
            _call(document, call, (*place, "calls", index), known)
            for index, call in enumerate(shape["calls"])
        )
        at_end = shape.get("at_end")
        if not calls and at_end is None:
            raise SpecError("expects nothing", place)
        yield PolicyTest(
            name=shape["name"],
            subject=shape.get("subject"),
            state=shape.get("state", {}),
            calls=calls,
            at_end=None if at_end is None else _names(at_end, (*place, "at_end"), known),
            file=str(document.name),
            line=document.line_of(place),
        )


def _call(document: Document, call: Any, place: Place, known: Collection[str]) -> TestCall:
    check_kind(call, "mapping", place)
    # A result may be anything, and is not looked at here.
    result = call.get("result")
    said = {name: value for name, value in call.items() if name not in ("result", "by")}
    shape = shaped(said, _CALL, place)
    by = call.get("by", [])
    return TestCall(
        tool=shape["tool"],
        args=shape.get("args", {}),
        result=result,
        succeeds=shape.get("outcome") != "failed",
        at=shape.get("at"),
        expect=shape.get("expect", "allowed"),
        by=_names([by] if isinstance(by, str) else by, (*place, "by"), known),
        line=document.line_of(place),
    )


def _names(names: Any, place: Place, known: Collection[str]) -> tuple[str, ...]:
    check_kind(names, "list", place)
    for name in names:
        if not isinstance(name, str) or name not in known:
            near = get_close_matches(str(name), known, n=1)
            meant = f", did you mean {near[0]!r}" if near else ""
            raise SpecError(f"there is no contract {name!r:.80}{meant}", place)
    return tuple(names)
