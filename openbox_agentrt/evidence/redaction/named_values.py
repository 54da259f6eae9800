"""Values that stand in text under their names: ``name=value``, ``"name": value``, ``--name value``."""

import re
from collections.abc import Callable
from typing import Final

from .markers import MARKED

# Possessive throughout: text comes from whoever talks to the agent, and must cost no more than its length.
_ASSIGNMENT = re.compile(r"(?<![\w.$-])([\w.$-]++)(\\*+[\"']?+\s*+(?:=>|:=|[:=])\s*+)")
_QUOTED = re.compile(r"\\*+(?:\"(?:[^\"\\]|\\.)*+\"?+|'(?:[^'\\]|\\.)*+'?+)", re.DOTALL)
_ESCAPED = re.compile(r"\\++([\"'])[^\"']*+[\"']?+")
_TO_END_OF_LINE = re.compile(r"[^\r\n]*+")
_TO_END_OF_WORD = re.compile(r"[^\s,;&]*+")
_BRACKET = re.compile(r"[\[\](){}]")
_CALL = re.compile(r"[A-Za-z_][A-Za-z_.]*\((?:[^()]*\))?[),.:]*+")
_TYPE = re.compile(r"(?:[A-Za-z]+\.)?(?:Optional|Union|Annotated|Literal)\[.*")
_ESCAPES: Final = frozenset("bfnrt")
_WORDS_FOR_VALUES: Final = frozenset(
    (
        *("required", "optional", "none", "null", "nil", "undefined", "unset", "empty", "missing", "blank"),
        *("absent", "true", "false", "yes", "no", "string", "str", "text", "bytes", "int", "integer"),
        *("number", "bool", "boolean", "any", "object", "secretstr", "invalid", "incorrect", "wrong"),
        *("expired", "changed", "hidden", "redacted", "masked"),
    )
)
_OPTION = re.compile(r"(?:(?<![\w.$-])|(?<=\\[bfnrt]))--?([\w.$-]++)(\s++)(?=[^\s-])")


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
        if match.start() < done or not any(map(hides, _names(text, match))):
            continue
        end = _end_of_value(text, start, match[2])
        value = text[start:end]
        if not value or value.strip("\"'\\").startswith(MARKED):
            continue
        quote = quote_of(value)
        pieces += (text[done:start], quote, marker(value.strip(quote) if quote else value), quote)
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


def _names(text: str, match: re.Match[str]) -> tuple[str, ...]:
    name = match[1].lstrip("-")
    # In a text that is quoted in JSON or in a program, a name that begins a line stands after ``\\n``.
    is_escaped = name[:1] in _ESCAPES and text.endswith("\\", 0, match.start(1))
    return (name, name[1:]) if is_escaped else (name,)


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


def is_word_for_value(text: str) -> bool:
    """
    Tell whether what stands after a name says something of a value, and is none: ``required``, ``getpass()``.

    What is in quotes is a value. What has digits is one as well, whatever it looks like.
    """
    word = text.rstrip(",.:)]}!?|").casefold()
    return word in _WORDS_FOR_VALUES or bool(_CALL.fullmatch(text) or _TYPE.fullmatch(text))
