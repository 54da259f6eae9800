"""
Know what of a conversation Core has been shown, by content.

A model is sent the whole conversation again with every call. What Core has judged once, or has been told as
the result of a tool or a model, need not be judged again; all else goes into the next question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from operator import attrgetter, is_
from typing import Any, Final

import msgspec

from .._plain.same import same_text
from .._wire.model_input import Element, message_elements
from ..message_extraction import last_user_text
from .redaction.mutable_parts import mutable_parts, serialized

MAX_ELEMENTS: Final = 100_000
MAX_MESSAGES: Final = 4_096
SHORT: Final = 128
"""Bytes up to which a content is kept as it is: hashing it would take longer."""

_ROLE: Final = attrgetter("role")
_ENCODER: Final = msgspec.json.Encoder(enc_hook=same_text, order="deterministic")


class PrefixMatch(msgspec.Struct, frozen=True, eq=False):
    """
    Say how far messages begin with those of the call before. A struct, because every model call makes one.

    What somebody may change in them is kept with its serialized form, so that a change is found later.

    Attributes:
        length: How many of the first messages are those of the call before, which hold nothing new.
        old_parts: What may be changed in these, and maybe in some that have come after them since.
        old_serialized: Its form when they were judged.
        new_parts: What may be changed in the other messages.
        new_serialized: Its form now.
    """

    length: int
    old_parts: list[Any]
    old_serialized: bytes
    new_parts: tuple[Any, ...]
    new_serialized: bytes

    def is_unchanged(self) -> bool:
        """Tell whether the messages still are what was judged, and what was matched."""
        is_old_same = serialized(self.old_parts).startswith(self.old_serialized)
        return is_old_same and serialized(self.new_parts) == self.new_serialized


class JudgedContent:
    """
    Remember contents by their hash. What is forgotten, because there is too much, is judged again.

    Agent-RT hands over the same message objects with every call, mostly those of the call before and more, so
    this prefix is not taken apart again. Where somebody may have changed what is in it, the serialized forms
    are compared.
    """

    __slots__ = ("_digests", "_last_user_text", "_messages", "_parts", "_prefix", "_prompt", "_serialized")

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()
        self._messages: OrderedDict[int, tuple[Any, bytes]] = OrderedDict()
        # Both of the prefix only grow, or are replaced: to copy them with each call would touch all in them.
        self._prefix: list[Any] = []
        self._parts: list[Any] = []
        self._serialized = b""
        self._last_user_text = ""
        self._prompt: str | None = None

    def remember(self, elements: Iterable[Element]) -> None:
        """Note that Core has been shown `elements`."""
        for element in elements:
            self._digests[_digest(element)] = None
        while len(self._digests) > MAX_ELEMENTS:
            self._digests.popitem(last=False)

    def remember_message(self, message: Any) -> None:
        """Note that Core has been told what `message` says."""
        self.remember(message_elements((message,)))

    def remember_prompt(self, prompt: str) -> None:
        """Note that Core has judged a prompt."""
        if prompt != self._prompt:
            self.remember([{"role": "user", "prompt": prompt}])
            self._prompt = prompt

    def match(self, messages: Sequence[Any]) -> PrefixMatch:
        """Find how far messages begin with those of the call before, if these have not changed since."""
        match = self.match_by_identity(messages)
        return match if match.is_unchanged() else _no_match(messages)

    def match_by_identity(self, messages: Sequence[Any]) -> PrefixMatch:
        """Find how far they begin with the same objects; whether they changed, `is_unchanged` tells later."""
        prefix = self._prefix
        if len(messages) < len(prefix) or not all(map(is_, prefix, messages)):
            return _no_match(messages)
        new = _mutable_parts(messages[len(prefix) :])
        return PrefixMatch(len(prefix), self._parts, self._serialized, new, serialized(new))

    def last_user_text(self, messages: Sequence[Any], match: PrefixMatch | None = None) -> str:
        """Give the text of the last user message, and read only what is new for it."""
        length = (match or self.match(messages)).length
        for message in reversed(messages[length:]):
            if message.role == "user":
                return last_user_text((message,))
        return self._last_user_text if length else ""

    def unjudged(
        self, messages: Sequence[Any], *, besides: Iterable[Element] = (), match: PrefixMatch | None = None
    ) -> list[Element]:
        """
        List what in `messages` Core has not been shown, once each, oldest first.

        Args:
            besides: Contents that count as shown in this question.
            match: What `match` or `match_by_identity` gave for the messages just now.
        """
        match = match or self.match(messages)
        rest = messages[match.length :]
        found: dict[bytes, Element] = {}
        judged = len(rest)  # how many of the rest, from its beginning, hold nothing new
        for place, message in enumerate(rest):
            if not match.length and self._is_known(message):
                continue
            if new := self._new_in(message):
                found |= new
                judged = min(judged, place)
            elif not match.length:
                # They do not begin as the last ones did, as where old ones are left out each time.
                self._know(message)
        self._extend_prefix(match, tuple(rest[:judged]), is_all=judged == len(rest))
        if found:
            for element in besides:
                found.pop(_digest(element), None)
        return list(found.values())

    def rest(self) -> None:
        """Let go of the messages; their contents stay known."""
        self._messages.clear()
        self._prefix, self._parts, self._serialized = [], [], b""

    def _extend_prefix(self, match: PrefixMatch, judged: tuple[Any, ...], *, is_all: bool) -> None:
        """Have `judged`, all that follows the match or the first of it, follow in the prefix as well."""
        if not match.length or "user" in map(_ROLE, judged):
            self._last_user_text = last_user_text(judged)
        if not match.length:
            self._prefix, self._parts, self._serialized = [], [], b""
        parts = match.new_parts if is_all else _mutable_parts(judged)
        self._prefix += judged
        self._parts += parts
        self._serialized += match.new_serialized if is_all else serialized(parts)

    def _new_in(self, message: Any) -> dict[bytes, Element]:
        """Give the contents of a message that Core has not been shown, by their hash."""
        new: dict[bytes, Element] = {}
        for element in message_elements((message,)):
            digest = _digest(element)
            if digest not in self._digests:
                new[digest] = element
        return new

    def _is_known(self, message: Any) -> bool:
        known = self._messages.get(id(message))
        return known is not None and known[0] is message and known[1] == _digest_of_mutable(message)

    def _know(self, message: Any) -> None:
        # A strong reference to the message keeps its id from being used again.
        self._messages[id(message)] = (message, _digest_of_mutable(message))
        while len(self._messages) > MAX_MESSAGES:
            self._messages.popitem(last=False)


def _no_match(messages: Sequence[Any]) -> PrefixMatch:
    new = _mutable_parts(messages)
    return PrefixMatch(0, [], b"", new, serialized(new))


def _mutable_parts(messages: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(map(mutable_parts, messages)))


def _digest_of_mutable(message: Any) -> bytes:
    parts = mutable_parts(message)
    return _short(serialized(parts)) if parts else b""


def _digest(element: Element) -> bytes:
    try:
        encoded = _ENCODER.encode(element)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        # Keys that JSON has not, a cycle, a number or a depth beyond it.
        encoded = same_text(element).encode("utf-8", "surrogatepass")
    return encoded if len(encoded) <= SHORT else _short(encoded)


def _short(encoded: bytes) -> bytes:
    return encoded if len(encoded) <= SHORT else blake2b(encoded, digest_size=16).digest()
