"""Text for a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.cli.text import compact_json, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("größe — 😀", "größe — 😀", id="beyond ascii"),
        pytest.param("a\x1b[2Jb", "a\\x1b[2Jb", id="escape sequence"),
        pytest.param("a\nb\tc", "a\\nb\\tc", id="line break and tab"),
        pytest.param("a\u202eb", "a\\u202eb", id="turned around"),
        pytest.param("a\u200bb", "a\\u200bb", id="invisible"),
        pytest.param("a\ud800b", "a\\ud800b", id="lone surrogate"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    """What moves, hides or turns text is shown as what it is; letters are left alone."""
    assert printable(text) == expected


@given(st.text(st.characters(categories=None)))
def test_nothing_gets_through(text: str) -> None:
    """No control, format or unassigned character is ever printed."""
    shown = printable(text)

    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"}
    shown.encode()


def test_compact_json() -> None:
    """JSON in one line, readable, and no less safe."""
    assert compact_json({"b": "größe\x1b\u202e", "a": [1]}) == '{"a": [1], "b": "größe\\u001b\\u202e"}'
    assert compact_json({1, 2}) == json.dumps("{1, 2}")
