"""Every example of the page on contracts runs, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.contracts.registry import TEMPLATES

PAGE = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
SHARED = next(code for code, _ in BLOCKS if "def refused" in code)


@pytest.mark.parametrize(("code", "printed"), BLOCKS, ids=[code.splitlines()[0][:50] for code, _ in BLOCKS])
def test_an_example(code: str, printed: str) -> None:
    """It runs as it stands, after the lines that the page says are shared."""
    names: dict[str, Any] = {}
    out = io.StringIO()

    exec(SHARED, names)
    with contextlib.redirect_stdout(out):
        exec(code, names)

    assert out.getvalue() == printed


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_has_an_example(template: str) -> None:
    """Under a heading of its own."""
    section = PAGE.split(f"### {template}(", 1)[1].split("\n### ", 1)[0]

    assert "```python" in section
    assert f"{template}(" in section.split("```python", 1)[1]
