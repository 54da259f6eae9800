"""docs/guarantees.md names tests; they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+\.py::\w+)`", PAGE)))


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


def test_every_guarantee_has_a_test() -> None:
    """A sentence without one would be a hope."""
    promised = PAGE.split("## What was taken out")[0].split("## Known limits")[0]
    lines = [line for line in promised.splitlines() if line.startswith("* ")]
    assert len(lines) > 40
    assert [line for line in lines if "`tests/" not in line] == []


@pytest.mark.parametrize("name", NAMED)
def test_the_test_that_holds_it_exists(name: str) -> None:
    """Under the name that the page gives it."""
    path, test = name.split("::")
    assert test in collected(ROOT / path)
