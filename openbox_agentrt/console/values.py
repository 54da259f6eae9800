"""
Arguments, as a person is to see them: whole, without secrets, and with nothing in them that can hide or move.

A value becomes pieces of text, each plain, a mark of something redacted, or the number of a character that
cannot be seen. Templates write the pieces, so nothing here makes HTML.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from .._plain.digest import text_digest
from . import words

INLINE = 2_000
"""Longer text is loaded when a person opens it."""

MOST_ARGUMENTS = 100
"""Further arguments are one long value, which is loaded when a person opens it."""

_SHORT = 300
_EDGE = 60
_SENTINEL = "__openbox"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARK = re.compile(r"\*\*\*REDACTED\((?:(?:hmac-)?sha256:)?([0-9a-f]{8,64})\)\*\*\*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of a value: as it stands, a mark of what is `hidden`, or the number of what is `unseen`."""

    kind: Literal["text", "hidden", "unseen"]
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """
    Describe one argument of a call.

    Attributes:
        name: Its name.
        pieces: The value as JSON; of a long one the beginning and the end.
        note: A word on its type, where the value alone may be misread.
        large: Whether it is a number, which is what most decisions hang on.
        whole: All of a long value, unless it is too long for the page.
        about: What a long value is: its kind, length and hash.
        index: Its position, by which the whole value is asked for.
    """

    name: tuple[Piece, ...]
    pieces: tuple[Piece, ...]
    note: str = ""
    large: bool = False
    whole: tuple[Piece, ...] = ()
    about: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """
    All arguments of a call.

    Attributes:
        sha256: Hash of what is shown, in whole: who decides about it decides about nothing else.
        redacted: How many values were redacted.
        unseen: How many characters are shown by their numbers.
    """

    items: tuple[Argument, ...]
    sha256: str
    redacted: int
    unseen: int
    values: tuple[tuple[str, Any], ...] = field(repr=False)


def named_values(event: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Give what an event asks about, by name: the arguments of a tool, or its inputs by their positions."""
    if event.get("hook_trigger"):
        items = list(event.get("spans") or ())
    else:
        given = event.get("activity_input", event.get("signal_args")) or ()
        items = [one for one in given if not (isinstance(one, dict) and set(one) == {_SENTINEL})]
    if len(items) == 1 and isinstance(items[0], dict):
        return tuple(items[0].items())
    return tuple((str(place), item) for place, item in enumerate(items, 1))


def arguments_of(event: Mapping[str, Any]) -> Arguments:
    """Take the arguments of an event, in which secrets have marks already."""
    values = named_values(event)
    listed = listed_values(values)
    items = tuple(_argument(place, name, value) for place, (name, value) in enumerate(listed))
    written = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
    texts = tuple(_texts(values))
    return Arguments(
        items=items,
        sha256=hashlib.sha256(written.encode()).hexdigest(),
        redacted=sum(len(_MARK.findall(text)) for text in texts),
        unseen=sum(sum(map(_is_unseen, text)) for text in texts if not text.isprintable()),
        values=values,
    )


def listed_values(named: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    """Give values as they are listed: where there are very many, those after the first hundred are one."""
    if len(named) <= MOST_ARGUMENTS + 1:
        return named
    rest = dict(named[MOST_ARGUMENTS:])
    return (*named[:MOST_ARGUMENTS], (f"and {len(rest):,} more", rest))


def title_of(values: tuple[tuple[str, Any], ...]) -> str:
    """Give the first three short values in their order, none of them redacted."""
    told = []
    for _, value in values:
        if isinstance(value, str):
            if not value or len(value) > 32 or any(piece.kind != "text" for piece in pieces(value)):
                continue
            told.append(value)
        elif isinstance(value, list):
            told.append(f"list of {len(value)}")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            told.append(json.dumps(value))
        if len(told) == 3:
            break
    return ", ".join(told)


def text_of(value: Any) -> str:
    """Give a value as text: itself, or as JSON in which no character is out of sight."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def pieces(text: str) -> tuple[Piece, ...]:
    """Take a text apart into what can be seen and what cannot."""
    return tuple(_joined(_text(text)))


def some(text: str, most: int) -> tuple[Piece, ...]:
    """Show a text whole, or its beginning and end and how much is between."""
    if len(text) <= most:
        return pieces(text)
    half = most // 2
    between = Piece(kind="text", text=f" … {len(text) - 2 * half:,} characters … ")
    return (*pieces(text[:half]), between, *pieces(text[-half:]))


def visible(text: str) -> str:
    """Give a name or a reason as one text: short, and with numbers for characters that cannot be seen."""
    if len(text) <= _SHORT and text.isprintable():
        return text
    return "".join(piece.text for piece in some(text.replace("\r\n", "\n"), INLINE))


def json_pieces(value: Any) -> tuple[Piece, ...]:
    """Write a value as JSON, taken apart as `pieces` does."""
    return tuple(_joined(_json(value)))


def _argument(place: int, name: str, value: Any) -> Argument:
    if len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) <= _SHORT:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return Argument(
            name=some(name, _SHORT),
            pieces=json_pieces(value),
            note="number" if number else _note(value),
            large=number,
            index=place,
        )
    text, quote = text_of(value), '"' if isinstance(value, str) else ""
    return Argument(
        name=some(name, _SHORT),
        pieces=(_plain(quote), *pieces(text[:_EDGE]), _plain(" … "), *pieces(text[-_EDGE:]), _plain(quote)),
        whole=pieces(text) if len(text) <= INLINE else (),
        about=f"{_kind(value)}, {len(text):,} characters, sha-256 {words.short_hash(text_digest(text))}",
        index=place,
    )


def _note(value: Any) -> str:
    if value == "":
        return "empty text"
    return "nothing" if value is None else ""


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"list of {len(value):,}"
    return "text" if isinstance(value, str) else "object"


def _json(value: Any) -> Iterator[Piece]:
    if isinstance(value, str):
        if _MARK.fullmatch(value):
            yield from _text(value)
            return
        yield Piece(kind="text", text='"')
        yield from _text(value, quoted=True)
        yield Piece(kind="text", text='"')
    elif isinstance(value, Mapping):
        yield from _between(
            "{", "}", [[*_json(str(name)), _plain(": "), *_json(one)] for name, one in value.items()]
        )
    elif isinstance(value, list | tuple):
        yield from _between("[", "]", [list(_json(one)) for one in value])
    else:
        yield _plain(json.dumps(value))


def _between(opening: str, closing: str, parts: list[list[Piece]]) -> Iterator[Piece]:
    yield _plain(opening)
    for place, part in enumerate(parts):
        if place:
            yield _plain(", ")
        yield from part
    yield _plain(closing)


def _plain(text: str) -> Piece:
    return Piece(kind="text", text=text)


def _text(text: str, *, quoted: bool = False) -> Iterator[Piece]:
    end = 0
    for mark in _MARK.finditer(text):
        yield from _characters(text[end : mark.start()], quoted)
        yield Piece(kind="hidden", text=mark[1])
        end = mark.end()
    yield from _characters(text[end:], quoted)


def _characters(text: str, quoted: bool) -> Iterator[Piece]:
    if text.isprintable():
        yield _plain(_escaped(text) if quoted else text)
        return
    for hidden, found in groupby(text, _is_unseen):
        if not hidden:
            part = "".join(found)
            yield _plain(_escaped(part) if quoted else part)
            continue
        for character in found:
            name = unicodedata.name(character, "a character that cannot be seen").lower()
            yield Piece(kind="unseen", text=f"U+{ord(character):04X}", name=name)


def _is_unseen(character: str) -> bool:
    if character.isprintable() or character in "\n\t":
        return False
    return unicodedata.category(character) in _UNSEEN


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield str(name)
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def _joined(parts: Iterator[Piece]) -> Iterator[Piece]:
    held: list[str] = []
    for piece in parts:
        if piece.kind == "text":
            held.append(piece.text)
            continue
        if held:
            yield _plain("".join(held))
            held = []
        yield piece
    if held:
        yield _plain("".join(held))
