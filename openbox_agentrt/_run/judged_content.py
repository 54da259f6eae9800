"""
What of a conversation Core has been shown, by content.

A model is sent the whole conversation again with every call. What Core has judged once, or has been told as
the result of a tool or a model, need not be judged again; all else goes into the next question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from .._plain.same import canonical
from .._wire.model_input import Element, message_elements

__all__ = ("JudgedContent",)

MAX_ELEMENTS: Final = 100_000
MAX_MESSAGES: Final = 4_096


class JudgedContent:
    """
    Remember contents by their hash. What is forgotten, because there is too much, is judged again.

    Agent-RT hands over the same message objects with every call: those are known by identity, as long as what
    they hold has not changed.
    """

    __slots__ = ("_digests", "_messages")

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()
        self._messages: OrderedDict[int, tuple[Any, int | None]] = OrderedDict()

    def remember(self, elements: Iterable[Element]) -> None:
        """Note that Core has been shown `elements`."""
        for element in elements:
            self._digests[_digest(element)] = None
        while len(self._digests) > MAX_ELEMENTS:
            self._digests.popitem(last=False)

    def unjudged(self, messages: Sequence[Any], *, besides: Iterable[Element] = ()) -> list[Element]:
        """
        List what in `messages` Core has not been shown, once each, oldest first.

        Args:
            besides: Contents that count as shown in this question.
        """
        known = {_digest(element) for element in besides}
        found = []
        for message in messages:
            if self._is_known(message):
                continue
            left = False
            for element in message_elements((message,)):
                digest = _digest(element)
                if digest in self._digests:
                    continue
                left = True
                if digest not in known:
                    known.add(digest)
                    found.append(element)
            if not left:
                self._know(message)
        return found

    def _is_known(self, message: Any) -> bool:
        known = self._messages.get(id(message))
        return known is not None and known[0] is message and known[1] == _changeable(message)

    def _know(self, message: Any) -> None:
        # A strong reference to the message keeps its id from being used again.
        self._messages[id(message)] = (message, _changeable(message))
        while len(self._messages) > MAX_MESSAGES:
            self._messages.popitem(last=False)


def _changeable(message: Any) -> int | None:
    """Fingerprint what somebody may change in a frozen message; None where there is nothing."""
    if not message.tool_calls and all(part.data is None for part in message.content):
        return None if type(message.content) is tuple else hash(tuple(message.content))
    return hash(
        _encoded([[part.data for part in message.content], [call.arguments for call in message.tool_calls]])
    )


def _digest(element: Element) -> bytes:
    return blake2b(_encoded(element), digest_size=16).digest()


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic", enc_hook=canonical)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        # Keys that JSON has not, a cycle, a number or a depth beyond it.
        return canonical(value).encode("utf-8", "surrogatepass")
