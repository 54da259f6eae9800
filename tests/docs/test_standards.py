"""Each row of docs/standards.md that claims something names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "standards.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| ---")
]
CLAIMS = [row for row in ROWS if row[2] in ("whole", "part", "no")]


def test_every_row_says_how_far() -> None:
    """Headings apart, and nothing is said to be whole or in part without a test."""
    headings = [row for row in ROWS if row[2] == "extent"]
    assert len(CLAIMS) + len(headings) == len(ROWS)
    assert len(CLAIMS) > 25
    assert [row[0] for row in CLAIMS if row[2] != "no" and "::" not in row[3]] == []
    assert [row[0] for row in CLAIMS if row[2] == "no" and row[3]] == []


def test_every_risk_of_a_list_is_there() -> None:
    assert [f"ASI{number:02}" for number in range(1, 11)] == re.findall(r"^\| (ASI\d\d)", PAGE, re.MULTILINE)


@pytest.mark.parametrize("named", sorted({row[3].strip("`") for row in CLAIMS if row[3]}))
def test_the_test_exists(named: str) -> None:
    path, name = named.split("::")
    nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    found = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in found
