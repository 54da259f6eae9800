"""What docs/troubleshooting.md says one sees is what the product says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import openbox_agentrt

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
PACKAGE = Path(openbox_agentrt.__file__).parent
SOURCE = re.sub(r'"\s*\n\s*f?"', "", "\n".join(p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py")))
SEEN = [row.split("|")[1] for row in PAGE.splitlines() if row.startswith("| ") and "you see" not in row]
# An example of a value, which the product puts there: a name in quotes, a number, what follows.
VALUE = re.compile(r"\.\.\.|'[^']*'|\d+")


@pytest.mark.parametrize("text", [text for seen in SEEN for text in re.findall(r"`([^`]+)`", seen)])
def test_what_one_sees_is_what_is_said(text: str) -> None:
    """Each piece of a message that stands in the first column is in the source."""
    pieces = [piece.strip(" :,") for piece in VALUE.split(text)]
    assert [piece for piece in pieces if len(piece) > 3 and piece not in SOURCE] == []
