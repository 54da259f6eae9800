"""
What of a conversation Core has been shown, by content.

A model is sent the whole conversation again with every call. What Core has judged once, or has been told as
the result of a tool or a model, need not be judged again; all else goes into the next question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import takewhile
from operator import is_
from typing import Any, Final

import msgspec

from .._plain.same import canonical
from .._wire.model_input import Element, message_elements
from ..message_extraction import last_user_text

__all__ = ("JudgedContent", "fingerprint")

MAX_ELEMENTS: Final = 100_000
MAX_MESSAGES: Final = 4_096
SHORT: Final = 64
"""Bytes up to which a content is kept as it is: hashing it would take longer."""

_ENCODER: Final = msgspec.json.Encoder(enc_hook=canonical, order="deterministic")


class JudgedContent:
    """
    Remember contents by their hash. What is forgotten, because there is too much, is judged again.

    Agent-RT hands over the same message objects with every call, so those that are known are not looked into
    again. Only what a caller has passed with data in it is compared: it may be changed in the meantime.
    """

    __slots__ = ("_asked", "_digests", "_messages", "_prefix", "_prompt")

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()
        self._messages: OrderedDict[int, tuple[Any, int | None]] = OrderedDict()
        self._prefix: tuple[Any, ...] = ()
        self._prompt = ""
        self._asked: str | None = None

    def remember(self, elements: Iterable[Element]) -> None:
        """Note that Core has been shown `elements`."""
        for element in elements:
            self._digests[_digest(element)] = None
        while len(self._digests) > MAX_ELEMENTS:
            self._digests.popitem(last=False)

    def remember_message(self, message: Any) -> None:
        """Note that Core has been told what `message` says, which is sent again as the same object."""
        self.remember(message_elements((message,)))
        self._know(message)

    def remember_prompt(self, prompt: str) -> None:
        """Note that Core has judged a prompt."""
        if prompt != self._asked:
            self.remember([{"role": "user", "prompt": prompt}])
            self._asked = prompt

    def last_user_text(self, messages: Sequence[Any]) -> str:
        """Give the text of the last user message, and look only at what is new for it."""
        prefix = self._same_prefix(messages)
        for message in reversed(messages[len(prefix) :]):
            if message.role == "user":
                return last_user_text((message,))
        return self._prompt if prefix else ""

    def unjudged(self, messages: Sequence[Any], *, besides: Iterable[Element] = ()) -> list[Element]:
        """
        List what in `messages` Core has not been shown, once each, oldest first.

        Args:
            besides: Contents that count as shown in this question.
        """
        prefix = self._same_prefix(messages)
        rest = messages[len(prefix) :]
        new = [message for message in rest if not self._is_known(message)]
        found = self._found(new, besides) if new else []
        settled = tuple(takewhile(self._is_settled, rest))
        if not prefix or any(message.role == "user" for message in settled):
            self._prompt = last_user_text(settled)
        self._prefix = (*prefix, *settled)
        return found

    def rest(self) -> None:
        """Let go of the messages; what they said stays known."""
        self._messages.clear()
        self._prefix = ()

    def _same_prefix(self, messages: Sequence[Any]) -> tuple[Any, ...]:
        """Give the messages that are known not to be new, if `messages` begins with them."""
        prefix = self._prefix
        return prefix if len(messages) >= len(prefix) and all(map(is_, prefix, messages)) else ()

    def _found(self, messages: Iterable[Any], besides: Iterable[Element]) -> list[Element]:
        found: list[Element] = []
        known: set[bytes] | None = None
        for message in messages:
            left = False
            for element in message_elements((message,)):
                digest = _digest(element)
                if digest in self._digests:
                    continue
                left = True
                if known is None:
                    known = {_digest(each) for each in besides}
                if digest not in known:
                    known.add(digest)
                    found.append(element)
            if not left:
                self._know(message)
        return found

    def _is_known(self, message: Any) -> bool:
        known = self._messages.get(id(message))
        return known is not None and known[0] is message and (known[1] is None or known[1] == _print(message))

    def _is_settled(self, message: Any) -> bool:
        known = self._messages.get(id(message))
        return known is not None and known[0] is message and known[1] is None

    def _know(self, message: Any) -> None:
        # A strong reference to the message keeps its id from being used again.
        self._messages[id(message)] = (message, None if _is_settled(message) else _print(message))
        while len(self._messages) > MAX_MESSAGES:
            self._messages.popitem(last=False)


def fingerprint(messages: Iterable[Any]) -> list[int]:
    """Tell later whether somebody has changed one of `messages` that can be changed."""
    return [_print(message) for message in messages if not _is_settled(message)]


def _is_settled(message: Any) -> bool:
    """Tell whether a message stays as it is: made in the run itself, or of nothing but texts."""
    if message.role in ("assistant", "tool"):
        return True
    return type(message.content) is tuple and all(part.data is None for part in message.content)


def _print(message: Any) -> int:
    """Fingerprint what somebody may change in a message that is frozen itself."""
    return hash(_encoded([[part.text, part.data] for part in message.content]))


def _digest(element: Element) -> bytes:
    encoded = _encoded(element)
    return encoded if len(encoded) <= SHORT else blake2b(encoded, digest_size=16).digest()


def _encoded(value: Any) -> bytes:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        # Keys that JSON has not, a cycle, a number or a depth beyond it.
        return canonical(value).encode("utf-8", "surrogatepass")
