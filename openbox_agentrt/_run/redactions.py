"""
The redactions of one run, which stay in force for all of it.

Core redacts what it is asked about: a prompt, a tool's arguments. The raw text comes back in later turns -
in the history, quoted by a tool, in the arguments of the next call - and Core is not asked about each of
those places. `Redactions` remembers what was taken out and takes it out of everything that is handed to it.

Agent-RT's providers cache messages by identity. A message without anything to redact is therefore returned
as the same object, and a redacted one as the same new object every time.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, Final, TypeVar

from ..errors import GovernanceUnavailableError
from ..message_extraction import message_text, with_text

__all__ = ("Redactions",)

MAX_REDACTIONS: Final = 10_000
MAX_REMEMBERED_MESSAGES: Final = 4_096
SHORTEST_INSIDE: Final = 8
"""A shorter text is replaced only where it is the whole of a text: ``no`` is part of too many words."""

_MAX_COMPARED: Final = 20_000
_WORDS = re.compile(r"\s+|\S+")
_T = TypeVar("_T")


class Redactions:
    """
    Remember what was redacted in one conversation.

    Args:
        on_text: Told of every text that was redacted and what it became, unless it is short.

    Not promised: that a person's data is found in a form that Core has not redacted in this run - another
    spelling, or a part of it shorter than a word. What counts as that data is Core's to say.
    """

    __slots__ = ("_inside", "_memo", "_on_text", "_version", "_whole")

    def __init__(self, *, on_text: Callable[[str, str], None] | None = None) -> None:
        self._on_text = on_text
        self._whole: dict[str, str] = {}
        self._inside: list[tuple[str, str]] = []
        self._version = 0
        self._memo: OrderedDict[int, tuple[Any, Any, int]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._whole)

    def learn(self, before: object, after: object) -> None:
        """
        Remember that `before` became `after`, text by text.

        Raises:
            GovernanceUnavailableError: The run has more redactions than are kept. Forgetting one would undo
                it.
        """
        if before is after:
            return
        match before:
            case str():
                self._learn_text(before, after if isinstance(after, str) else "")
            case Mapping():
                for key, item in before.items():
                    self.learn(item, after.get(key) if isinstance(after, Mapping) else after)
            case list() | tuple():
                if isinstance(after, list | tuple) and len(after) == len(before):
                    for old, new in zip(before, after, strict=True):
                        self.learn(old, new)
                else:
                    for item in before:
                        self.learn(item, after)

    def text(self, text: str) -> str:
        """Give `text` without what was redacted; the same object when there is nothing to take out."""
        text = self._whole.get(text, text)
        for raw, redacted in self._inside:
            if raw in text:
                text = text.replace(raw, redacted)
        return text

    def value(self, value: _T) -> _T:
        """Redact text inside mappings, lists and tuples. What does not change stays the same object."""
        if not self._whole:
            return value
        result: Any = value
        match value:
            case str():
                result = self.text(value)
            case Mapping():
                items = {self.value(key): self.value(item) for key, item in value.items()}
                same = len(items) == len(value) and all(
                    new is old
                    for pair in zip(items.items(), value.items(), strict=True)
                    for new, old in zip(*pair, strict=True)
                )
                result = value if same else items
            case list() | tuple():
                parts = [self.value(item) for item in value]
                if any(new is not old for new, old in zip(parts, value, strict=True)):
                    result = parts if isinstance(value, list) else tuple(parts)
        return result  # type: ignore[no-any-return]  # of the same shape as `value`

    def messages(self, messages: Sequence[Any]) -> Sequence[Any]:
        """
        Give messages of any role without what was redacted: text, JSON parts and arguments of tool calls.

        Returns:
            `messages` itself when nothing changes, else a tuple. No message is changed in place.
        """
        if not self._whole:
            return messages
        result = tuple(self._message(message) for message in messages)
        return messages if all(new is old for new, old in zip(result, messages, strict=True)) else result

    def _learn_text(self, raw: str, redacted: str) -> None:
        if not raw.strip() or raw == redacted or self._whole.get(raw) == redacted:
            return
        if len(self._whole) >= MAX_REDACTIONS:
            raise GovernanceUnavailableError(
                "the run has too many redactions to keep in force", kind="unreadable"
            )
        self._whole[raw] = redacted
        if self._on_text is not None and len(raw) >= SHORTEST_INSIDE:
            self._on_text(raw, redacted)
        pieces: dict[str, str] = {}
        if len(raw) >= SHORTEST_INSIDE and raw not in redacted:
            pieces[raw] = redacted
        for piece, replacement in _pieces(raw, redacted):
            pieces.setdefault(piece, replacement)
        for piece, replacement in list(pieces.items()):
            # As it stands inside a text that is JSON, such as a tool's result.
            for ascii_only in (True, False):
                escaped = json.dumps(piece, ensure_ascii=ascii_only)[1:-1]
                pieces.setdefault(escaped, json.dumps(replacement, ensure_ascii=ascii_only)[1:-1])
        # The longest first: a shorter text inside it would spoil the match of the longer one.
        pieces |= dict(self._inside)
        self._inside = sorted(pieces.items(), key=lambda pair: -len(pair[0]))
        self._version += 1

    def _message(self, message: Any) -> Any:
        known = self._memo.get(id(message))
        if known is not None and known[0] is message:
            self._memo.move_to_end(id(message))
            if known[2] == self._version:
                return known[1]
        new = self._redacted(message)
        if known is not None and known[0] is message and new == known[1]:
            new = known[1]
        # A strong reference to the message keeps its id from being used again.
        for each in {id(message): message, id(new): new}.values():
            self._memo[id(each)] = (each, new, self._version)
        while len(self._memo) > MAX_REMEMBERED_MESSAGES:
            self._memo.popitem(last=False)
        return new

    def _redacted(self, message: Any) -> Any:
        whole = message_text(message)
        parts = tuple(self._part(part) for part in message.content)
        if "".join(part.text or "" for part in parts if part.type == "text") != self.text(whole):
            # What was redacted begins in one part and ends in another.
            message = with_text(message, self.text(whole))
            parts = tuple(self._part(part) for part in message.content)
        if any(new is not old for new, old in zip(parts, message.content, strict=True)):
            message = replace(message, content=parts)
        calls = tuple(self._call(call) for call in message.tool_calls)
        if any(new is not old for new, old in zip(calls, message.tool_calls, strict=True)):
            message = replace(message, tool_calls=calls)
        # Ids are text from a model as well. They are redacted alike on both sides, so they still match.
        call_id = self.value(message.tool_call_id)
        return message if call_id is message.tool_call_id else replace(message, tool_call_id=call_id)

    def _part(self, part: Any) -> Any:
        text, data = self.value(part.text), self.value(part.data)
        return part if text is part.text and data is part.data else replace(part, text=text, data=data)

    def _call(self, call: Any) -> Any:
        id, arguments, error = (
            self.value(call.id),
            self.value(call.arguments),
            self.value(call.argument_error),
        )
        if id is call.id and arguments is call.arguments and error is call.argument_error:
            return call
        return replace(call, id=id, arguments=arguments, argument_error=error)


def _pieces(raw: str, redacted: str) -> list[tuple[str, str]]:
    """Find the words that a redaction changed, where they are telling enough to look for."""
    if len(raw) > _MAX_COMPARED or len(redacted) > _MAX_COMPARED:
        return []
    old, new = _WORDS.findall(raw), _WORDS.findall(redacted)
    found = []
    for _, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        piece, replacement = _trimmed("".join(old[i:j]), "".join(new[k:m]))
        if _is_telling(piece) and piece not in redacted:
            found.append((piece, replacement))
    return found


def _trimmed(piece: str, replacement: str) -> tuple[str, str]:
    start = 0
    while start < min(len(piece), len(replacement)) and piece[start] == replacement[start]:
        start += 1
    piece, replacement = piece[start:], replacement[start:]
    end = 0
    while end < min(len(piece), len(replacement)) and piece[-1 - end] == replacement[-1 - end]:
        end += 1
    return (piece[: len(piece) - end], replacement[: len(replacement) - end])


def _is_telling(piece: str) -> bool:
    has_digit_or_at = any(char.isdigit() or char == "@" for char in piece)
    return len(piece) >= (SHORTEST_INSIDE if has_digit_or_at else 2 * SHORTEST_INSIDE)
