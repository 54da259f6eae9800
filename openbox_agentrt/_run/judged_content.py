"""
What of a conversation Core has been shown, by content.

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
from .redaction.changeable_parts import changeable_in, saying

MAX_ELEMENTS: Final = 100_000
MAX_MESSAGES: Final = 4_096
SHORT: Final = 128
"""Bytes up to which a content is kept as it is: hashing it would take longer."""

_ROLE: Final = attrgetter("role")
_ENCODER: Final = msgspec.json.Encoder(enc_hook=same_text, order="deterministic")


class Look(msgspec.Struct, frozen=True, eq=False):
    """
    Remember what messages said when they were looked at. A struct, because every model call makes one.

    Attributes:
        known: How many of the first are known not to be new.
        before: What somebody may change in those, and maybe in some that have become known since.
        before_said: What it said when they became known.
        new: What somebody may change in the others.
        new_said: What that said.
    """

    known: int
    before: list[Any]
    before_said: bytes
    new: tuple[Any, ...]
    new_said: bytes

    def is_same(self) -> bool:
        """Tell whether they say that now."""
        return saying(self.before).startswith(self.before_said) and saying(self.new) == self.new_said


class JudgedContent:
    """
    Remember contents by their hash. What is forgotten, because there is too much, is judged again.

    Agent-RT hands over the same message objects with every call, mostly those of the call before and more, so
    those that are known are not taken apart again. Where somebody may have changed what is in them, what they
    say is compared.
    """

    __slots__ = ("_asked", "_changeable", "_digests", "_messages", "_prefix", "_prompt", "_said")

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()
        self._messages: OrderedDict[int, tuple[Any, bytes]] = OrderedDict()
        # Both only grow, or are replaced: to copy them with each call would touch all that is in them.
        self._prefix: list[Any] = []
        self._changeable: list[Any] = []
        self._said = b""
        self._prompt = ""
        self._asked: str | None = None

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
        if prompt != self._asked:
            self.remember([{"role": "user", "prompt": prompt}])
            self._asked = prompt

    def look(self, messages: Sequence[Any]) -> Look:
        """Say how many of the first messages are known, and what they all say now."""
        look = self.glance(messages)
        return look if look.is_same() else self._look_at_all(messages)

    def glance(self, messages: Sequence[Any]) -> Look:
        """Look at what is new, and take it that what is known says what it said: see `Look.is_same`."""
        prefix = self._prefix
        if len(messages) < len(prefix) or not all(map(is_, prefix, messages)):
            return self._look_at_all(messages)
        new = _changeable_in(messages[len(prefix) :])
        return Look(len(prefix), self._changeable, self._said, new, saying(new))

    @staticmethod
    def _look_at_all(messages: Sequence[Any]) -> Look:
        new = _changeable_in(messages)
        return Look(0, [], b"", new, saying(new))

    def last_user_text(self, messages: Sequence[Any], look: Look | None = None) -> str:
        """Give the text of the last user message, and read only what is new for it."""
        known = (look or self.look(messages)).known
        for message in reversed(messages[known:]):
            if message.role == "user":
                return last_user_text((message,))
        return self._prompt if known else ""

    def unjudged(
        self, messages: Sequence[Any], *, besides: Iterable[Element] = (), look: Look | None = None
    ) -> list[Element]:
        """
        List what in `messages` Core has not been shown, once each, oldest first.

        Args:
            besides: Contents that count as shown in this question.
            look: What `look` gave for the messages just now.
        """
        look = look or self.look(messages)
        rest = messages[look.known :]
        found: dict[bytes, Element] = {}
        shown: set[bytes] | None = None
        held = len(rest)
        for place, message in enumerate(rest):
            if not look.known and self._is_known(message):
                continue
            new = self._new_in(message)
            if not new:
                if not look.known:
                    # They do not begin as the last ones did, as where old ones are left out each time.
                    self._know(message)
                continue
            held = min(held, place)
            if shown is None:
                shown = {_digest(each) for each in besides}
            for digest, element in new.items():
                if digest not in shown:
                    found.setdefault(digest, element)
        self._lengthen(look, tuple(rest[:held]), whole=held == len(rest))
        return list(found.values())

    def rest(self) -> None:
        """Let go of the messages; what they said stays known."""
        self._messages.clear()
        self._prefix, self._changeable, self._said = [], [], b""

    def _lengthen(self, look: Look, held: tuple[Any, ...], *, whole: bool) -> None:
        """Have `held`, all that was looked at or the first of it, follow those that are not new."""
        if not look.known or "user" in map(_ROLE, held):
            self._prompt = last_user_text(held)
        if not look.known:
            self._prefix, self._changeable, self._said = [], [], b""
        new = look.new if whole else _changeable_in(held)
        self._prefix += held
        self._changeable += new
        self._said += look.new_said if whole else saying(new)

    def _new_in(self, message: Any) -> dict[bytes, Element]:
        """Give what a message says that Core has not been shown, by its hash."""
        new: dict[bytes, Element] = {}
        for element in message_elements((message,)):
            digest = _digest(element)
            if digest not in self._digests:
                new[digest] = element
        return new

    def _is_known(self, message: Any) -> bool:
        known = self._messages.get(id(message))
        return known is not None and known[0] is message and known[1] == _said_by(message)

    def _know(self, message: Any) -> None:
        # A strong reference to the message keeps its id from being used again.
        self._messages[id(message)] = (message, _said_by(message))
        while len(self._messages) > MAX_MESSAGES:
            self._messages.popitem(last=False)


def _changeable_in(messages: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(map(changeable_in, messages)))


def _said_by(message: Any) -> bytes:
    data = changeable_in(message)
    return _short(saying(data)) if data else b""


def _digest(element: Element) -> bytes:
    try:
        encoded = _ENCODER.encode(element)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        # Keys that JSON has not, a cycle, a number or a depth beyond it.
        encoded = same_text(element).encode("utf-8", "surrogatepass")
    return encoded if len(encoded) <= SHORT else _short(encoded)


def _short(encoded: bytes) -> bytes:
    return encoded if len(encoded) <= SHORT else blake2b(encoded, digest_size=16).digest()
