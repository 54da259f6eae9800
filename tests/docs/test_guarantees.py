"""Each sentence of docs/guarantees.md has tests, named in tests/guarantees.md, and they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
TABLE = (ROOT / "tests" / "guarantees.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+\.py::\w+)`", TABLE)))


@cache
def collected(path: Path) -> frozenset[str]:
    """The test functions in a file, also those of classes."""
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def sentences(text: str) -> list[str]:
    return re.findall(r"^\* (.+)$", text, re.MULTILINE)


def test_every_guarantee_has_a_test() -> None:
    """A sentence without one would be a hope, and a row without its sentence a promise nobody reads."""
    promised = sentences(PAGE.split("## Known limits")[0])
    rows = TABLE.split("## What was taken out")[0]

    assert len(promised) > 40
    assert sentences(rows) == promised
    assert re.findall(r"^\* .+\n(?!  \* `tests/)", rows, re.MULTILINE) == []


def test_the_page_is_for_its_users() -> None:
    """Names of tests stand in the table beside the tests."""
    assert "::" not in PAGE


@pytest.mark.parametrize("name", NAMED)
def test_the_test_that_holds_it_exists(name: str) -> None:
    """Under the name that the table gives it."""
    path, test = name.split("::")
    assert test in collected(ROOT / path)
