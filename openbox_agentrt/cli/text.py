"""Text for a terminal. What is shown comes from logs and traces, so from whoever talked to the agent."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..acel.rulesfile import RulesWarning
    from ..traces.formats import Recordings

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    """Text in which nothing moves the cursor, hides, or turns around what is shown."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _UNSAFE
        else character
        for character in text
    )


def say(text: str, *, error: bool = False) -> None:
    """Print a text that a terminal can show; on standard error if it is not what was asked for."""
    print(printable(text), file=sys.stderr if error else sys.stdout)


def print_result(data: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print what a command has found: as JSON, or in lines for people."""
    if as_json:
        print(json.dumps(data, default=str))
    else:
        for line in lines:
            say(line)


def compact_json(value: object) -> str:
    """A value in one line of JSON that a terminal can show."""
    return printable(
        json.dumps(value, sort_keys=True, separators=(", ", ": "), default=str, ensure_ascii=False)
    )


def print_warnings(rules: str, warnings: Iterable[RulesWarning]) -> None:
    """Print what is odd about a rules file on standard error, with the file and the line."""
    for warning in warnings:
        say(f"warning: {warning.within(rules)}", error=True)


def tell_unread(recordings: Recordings) -> None:
    """Print on standard error what of recordings was not read: how much of each kind, and which files."""
    for reason, count in recordings.unread.most_common():
        say(f"not read: {count:,} {reason}", error=True)
    for error in recordings.unjudged.first:
        say(f"not read: {error}", error=True)
