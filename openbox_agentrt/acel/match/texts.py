"""
The texts that a pattern is searched for in.

An argument that is text is one text. Of a list or an object, every text in it counts, names included; the
words of a list counts as the line that they make, and the whole counts as the JSON that a tool may make of
it. Python's own way of printing a value counts nowhere: its quotes and escapes are nobody's.

That is the reading of what forbids: one text is enough. What allows needs all of them, each read alone.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from ..._plain.arguments import plain_value
from ..._plain.unseen import Unseen
from .paths import UnreadableError

_SCALARS = (bool, int, float)


def texts_of(value: Any, name: str) -> Iterator[str]:
    """
    Give every text of a value.

    Args:
        value: What an argument holds.
        name: The argument, for the error.

    Raises:
        UnreadableError: Something in it cannot be looked into. It is raised after all that can be.
    """
    if isinstance(value, str):
        yield str.__str__(value)
        return
    texts = _Texts(plain_value(value))
    yield from texts
    if texts.unseen is not None:
        raise UnreadableError(name, texts.unseen)


def each_text_of(value: Any, name: str) -> Iterator[str | None]:
    """
    Give each text of a value alone: texts, names, numbers and booleans, and None for each null.

    Raises:
        UnreadableError: Something in it cannot be looked into.
    """
    waiting = [plain_value(value)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from part
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
        elif isinstance(part, bytes | Unseen):
            raise UnreadableError(name, part if isinstance(part, Unseen) else Unseen("opaque", "bytes"))
        else:
            yield _scalar_text(part)


def line_of(value: Any) -> str | None:
    """Give the line that the words of a list make, or None if it is no list of words."""
    words = plain_value(value)
    if not isinstance(words, list | tuple) or not words:
        return None
    texts = [_scalar_text(word) if isinstance(word, str | bool | int | float) else None for word in words]
    return None if None in texts else " ".join(text for text in texts if text is not None)


def _scalar_text(part: Any) -> str | None:
    if isinstance(part, str):
        return str.__str__(part)
    if isinstance(part, _SCALARS):
        return json.dumps(part)
    return None if part is None else str(part)


class _Texts:
    """The texts of plain data, one after another, and what of it nobody can look into."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.unseen: Unseen | None = None

    def __iter__(self) -> Iterator[str]:
        waiting = [self._value]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                yield from part
                waiting.extend(part.values())
            elif isinstance(part, list | tuple):
                yield " ".join(text for item in part if (text := self._text(item)) is not None)
                waiting.extend(part)
            else:
                text = self._text(part)
                if text is not None:
                    yield text
        if isinstance(self._value, dict | list | tuple):
            yield _encoder((", ", ": ")).encode(self._value)
            yield _encoder((",", ":")).encode(self._value)

    def _text(self, part: Any) -> str | None:
        if isinstance(part, bytes):
            # What is text in some encoding has been decoded; of the rest, nobody knows what a tool reads.
            part = Unseen("opaque", "bytes")
        if isinstance(part, Unseen):
            self.unseen = self.unseen or part
        return None if isinstance(part, dict | list | tuple | Unseen) else _scalar_text(part)


@functools.cache
def _encoder(separators: tuple[str, str]) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, separators=separators, default=_as_json)


def _as_json(value: Any) -> str | None:
    # Amounts stay exact in arguments, so not everything there is JSON. What nobody can see is no text.
    return None if isinstance(value, Unseen | bytes) else str(value)
