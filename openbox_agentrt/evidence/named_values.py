"""Values that stand in text under their names: ``name=value``, ``"name": value``, ``--name value``."""

import re
from collections.abc import Callable
from typing import Final

# Possessive throughout: text comes from whoever talks to the agent, and must cost no more than its length.
_ASSIGNMENT = re.compile(r"(?<![\w.$-])([\w.$-]++)(\\*+[\"']?+\s*+(?:=>|:=|[:=])\s*+)")
_QUOTED = re.compile(r"\\*+(?:\"(?:[^\"\\]|\\.)*+\"?+|'(?:[^'\\]|\\.)*+'?+)", re.DOTALL)
_ESCAPED = re.compile(r"\\++([\"'])[^\"']*+[\"']?+")
_TO_END_OF_LINE = re.compile(r"[^\r\n]*+")
_TO_END_OF_WORD = re.compile(r"[^\s,;&]*+")
_BRACKET = re.compile(r"[\[\](){}]")
_OPTION = re.compile(r"(?<![\w.$-])--?([\w.$-]++)(\s++)(?=[^\s-])")
MARKED: Final = "***REDACTED("
"""How every marker begins."""


def conceal_values(text: str, hides: Callable[[str], bool], marker: Callable[[str], str]) -> str:
    """
    Put a marker in the place of each value under a secret name.

    Args:
        text: The text.
        hides: Says whether a name is that of a secret.
        marker: Gives what stands in for a value.
    """
    return _conceal(_OPTION, _conceal(_ASSIGNMENT, text, hides, marker), hides, marker)


def _conceal(
    names: re.Pattern[str], text: str, hides: Callable[[str], bool], marker: Callable[[str], str]
) -> str:
    pieces: list[str] = []
    done = 0
    for match in names.finditer(text):
        start = match.end()
        if match.start() < done or not hides(match[1].lstrip("-")):
            continue
        end = _end_of_value(text, start, match[2])
        value = text[start:end]
        if not value or value.strip("\"'\\").startswith(MARKED):
            continue
        quote = quote_of(value)
        pieces += (text[done:start], quote, marker(value.strip(quote) if quote else value), quote)
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


def _end_of_value(text: str, start: int, joint: str) -> int:
    """Find the end of the value that starts here, rather too late than too early."""
    match = (_ESCAPED if text.startswith("\\", start) else _QUOTED).match(text, start)
    if match is not None:
        return match.end()
    if text[start : start + 1] in ("{", "[", "("):
        depth = 0
        for bracket in _BRACKET.finditer(text, start):
            depth += 1 if bracket[0] in "{[(" else -1
            if depth == 0:
                return bracket.end()
        return len(text)
    rest = _TO_END_OF_LINE if joint.rstrip().endswith((":", ">")) else _TO_END_OF_WORD
    found = rest.match(text, start)
    return start if found is None else found.end()


def quote_of(value: str) -> str:
    """Give the quote that a value begins with, with the backslashes before it."""
    unescaped = value.lstrip("\\")
    return value[: len(value) - len(unescaped) + 1] if unescaped[:1] in ('"', "'") else ""
