"""
Messages without what was redacted, as the same objects every time.

Agent-RT's providers cache messages by identity. A message without anything to redact is therefore returned as
the same object, and a redacted one as the same new object every time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from agent_rt import PROVIDER_STATE_MIME, ContentPart, ModelMessage, ToolCall

from ...message_extraction import message_text, with_text
from .mutable_parts import mutable_parts, serialized

MAX_REMEMBERED_MESSAGES: Final = 4_096


class RedactedMessages:
    """
    Redact messages, and remember what became of each.

    Args:
        text: Redacts a text.
        value: Redacts any value.
    """

    __slots__ = ("_memo", "_text", "_value")

    def __init__(self, text: Callable[[str], str], value: Callable[[Any], Any]) -> None:
        self._text = text
        self._value = value
        self._memo: OrderedDict[int, tuple[Any, Any, int, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._memo)

    def clear(self) -> None:
        """Forget what became of each."""
        self._memo.clear()

    def redacted(self, message: ModelMessage, version: int) -> ModelMessage:
        """Redact a message, in the given version of what is known."""
        form = serialized(mutable_parts(message))
        known = self._memo.get(id(message))
        if known is not None and known[0] is message:
            self._memo.move_to_end(id(message))
            if known[2] == version and known[3] == form:
                return cast("ModelMessage", known[1])
        new = self._redacted(message)
        if known is not None and known[0] is message and new == known[1]:
            new = known[1]
        # A strong reference to the message keeps its id from being used again.
        self._memo[id(message)] = (message, new, version, form)
        if new is not message:
            self._memo[id(new)] = (new, new, version, serialized(mutable_parts(new)))
        while len(self._memo) > MAX_REMEMBERED_MESSAGES:
            self._memo.popitem(last=False)
        return new

    def _redacted(self, message: ModelMessage) -> ModelMessage:
        whole = message_text(message)
        parts = self._parts(message.content)
        if "".join(part.text or "" for part in parts if part.type == "text") != self._text(whole):
            # What was redacted begins in one part and ends in another.
            message = with_text(message, self._text(whole))
            parts = self._parts(message.content)
        if len(parts) != len(message.content) or any(
            new is not old for new, old in zip(parts, message.content, strict=True)
        ):
            message = replace(message, content=parts)
        calls = tuple(self._call(call) for call in message.tool_calls)
        if any(new is not old for new, old in zip(calls, message.tool_calls, strict=True)):
            message = replace(message, tool_calls=calls)
        # Ids are text from a model as well. They are redacted alike on both sides, so they still match.
        call_id = self._value(message.tool_call_id)
        return message if call_id is message.tool_call_id else replace(message, tool_call_id=call_id)

    def _parts(self, parts: Sequence[ContentPart]) -> tuple[ContentPart, ...]:
        redacted = ((part, self._part(part)) for part in parts)
        # State that a provider has signed is taken back as it was or not at all.
        return tuple(new for old, new in redacted if new is old or old.mime_type != PROVIDER_STATE_MIME)

    def _part(self, part: ContentPart) -> ContentPart:
        text, data = self._value(part.text), self._value(part.data)
        return part if text is part.text and data is part.data else replace(part, text=text, data=data)

    def _call(self, call: ToolCall) -> ToolCall:
        id, arguments, error = (
            self._value(call.id),
            self._value(call.arguments),
            self._value(call.argument_error),
        )
        if id is call.id and arguments is call.arguments and error is call.argument_error:
            return call
        return replace(call, id=id, arguments=arguments, argument_error=error)
