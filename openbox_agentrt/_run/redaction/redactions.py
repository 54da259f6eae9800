"""
The redactions of one conversation, which stay in force for all of it.

Core redacts what it is asked about: a prompt, a tool's arguments. The raw value comes back in later turns -
in the history, quoted by a tool, in the arguments of the next call - and Core is not asked about each of
those places. `Redactions` remembers what was taken out and takes it out of everything that is handed to it.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from agent_rt import ModelMessage

from ..._plain.arguments import plain_value
from ..._plain.same import same_text
from ...errors import GovernanceUnavailableError
from .redacted_messages import RedactedMessages
from .telling_pieces import SHORTEST_INSIDE, telling_pieces

MAX_REDACTIONS: Final = 10_000

_T = TypeVar("_T")


class Redactions:
    """
    Remember what was redacted in one conversation. Safe for several threads.

    Args:
        on_text: Told of every text that was redacted and what it became, unless it is short.

    Attributes:
        is_empty: Whether nothing has been redacted so far.

    Not promised: that a person's data is found in a form that Core has not redacted in this conversation -
    another spelling, or a part of it shorter than a word. What counts as that data is Core's to say.
    """

    __slots__ = (
        "_inside",
        "_lock",
        "_messages",
        "_on_text",
        "_structures",
        "_version",
        "_whole",
        "is_empty",
    )

    def __init__(self, *, on_text: Callable[[str, str], None] | None = None) -> None:
        self._on_text = on_text
        self.is_empty = True
        self._whole: dict[str, str] = {}
        self._structures: dict[str, Any] = {}
        self._inside: list[tuple[str, str]] = []
        self._version = 0
        self._messages = RedactedMessages(self.text, self.value)
        self._lock = threading.RLock()

    def learn(self, before: object, after: object) -> None:
        """
        Remember that `before` became `after`: each text and long number in it, and the whole where that is
        not enough, as when a short number changed or something is gone.

        Raises:
            GovernanceUnavailableError: The conversation has more redactions than are kept. Forgetting one
                would undo it.
        """
        with self._lock:
            self._learn(before, after)

    def text(self, text: str) -> str:
        """Redact a text; the same object when there is nothing to take out."""
        text = self._whole.get(text, text)
        for raw, redacted in self._inside:
            if raw in text:
                text = text.replace(raw, redacted)
        return text

    def value(self, value: _T) -> _T:
        """
        Redact whatever a value is made of. What does not change stays the same object.

        Containers and dataclasses keep their type. Of another object that holds what was redacted, its plain
        form is given instead.
        """
        if self.is_empty:
            return value
        try:
            return cast("_T", self._value(value))
        except RecursionError:
            # Inside itself, or deeper than Python goes: the plain form has marks in those places.
            return cast("_T", self._value(plain_value(value)))

    def messages(self, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
        """
        Redact messages of any role: text, JSON parts and arguments of tool calls.

        Returns:
            `messages` itself when nothing changes, else a tuple. No message is changed in place.
        """
        if self.is_empty:
            return messages
        with self._lock:
            result = tuple(self._messages.redacted(message, self._version) for message in messages)
        return messages if all(new is old for new, old in zip(result, messages, strict=True)) else result

    def told(self, values: Iterable[Any], name: Callable[[str], str]) -> dict[str, Any]:
        """Tell what the texts and wholes among `values` have become, under names that hide what they were."""
        told: dict[str, Any] = {}
        with self._lock:
            for value in values:
                text, whole = _keys_of(value)
                if text in self._whole:
                    told[name(f"text {text}")] = self.text(text)
                if whole in self._structures:
                    told[name(f"whole {whole}")] = self._texts_of(self._structures[whole])
        return told

    def learn_told(self, values: Iterable[Any], told: Mapping[str, Any], name: Callable[[str], str]) -> None:
        """
        Remember what `told` gave in another process, for the same values.

        Raises:
            GovernanceUnavailableError: As of `learn`.
        """
        with self._lock:
            for value in values if told else ():
                text, whole = _keys_of(value)
                became = None if text is None else told.get(name(f"text {text}"))
                if text is not None and became is not None:
                    self._learn_text(text, became)
                if whole is not None and (named := name(f"whole {whole}")) in told:
                    self._keep_structure(whole, told[named])

    def rest(self) -> None:
        """Let go of the messages; what was redacted stays known."""
        with self._lock:
            self._messages.clear()

    def _learn(self, before: object, after: object) -> None:
        if before is after:
            return
        match before:
            case str():
                self._learn_text(before, after if isinstance(after, str) else _written(after))
            case None | bool():
                return
            case int() | float():
                if len(repr(before)) >= SHORTEST_INSIDE:
                    self._learn_text(repr(before), _written(after))
                    self._learn_structure(before, after)
            case Mapping():
                for key, item in before.items():
                    self._learn(item, after.get(key) if isinstance(after, Mapping) else after)
                self._learn_structure(before, after)
            case list() | tuple():
                same = isinstance(after, list | tuple) and len(after) == len(before)
                items = cast("Sequence[Any]", after) if same else [after] * len(before)
                for old, new in zip(before, items, strict=True):
                    self._learn(old, new)
                self._learn_structure(before, after)
            case _:
                plain = plain_value(before)
                if isinstance(plain, str | int | float | Mapping | list):
                    self._learn(plain, plain_value(after))

    def _learn_structure(self, before: object, after: object) -> None:
        """Remember a whole that its texts do not tell."""
        if self._value(before) == after or (isinstance(before, Mapping) and not isinstance(after, Mapping)):
            return
        key = same_text(before)
        if len(key) >= SHORTEST_INSIDE:
            self._keep_structure(key, after)

    def _keep_structure(self, key: str, after: object) -> None:
        self._make_room()
        self._structures[key] = after
        self._version += 1

    def _learn_text(self, raw: str, redacted: str) -> None:
        if not raw.strip() or raw == redacted or self._whole.get(raw) == redacted:
            return
        self._make_room()
        self._whole[raw] = redacted
        if self._on_text is not None and len(raw) >= SHORTEST_INSIDE:
            self._on_text(raw, redacted)
        pieces: dict[str, str] = {}
        if len(raw) >= SHORTEST_INSIDE and raw not in redacted:
            pieces[raw] = redacted
        for piece, replacement in telling_pieces(raw, redacted):
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

    def _make_room(self) -> None:
        if len(self._whole) + len(self._structures) >= MAX_REDACTIONS:
            raise GovernanceUnavailableError(
                "the run has too many redactions to keep in force", kind="unreadable"
            )
        self.is_empty = False

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case None | bool():
                return value
            case int() | float():
                return self._number(value)
            case Mapping():
                return self._mapping(value)
            case list() | tuple() | Set():
                return self._items(value)
            case bytes() | bytearray():
                return self._octets(value)
        return self._object(value)

    def _number(self, number: float) -> Any:
        text = repr(number)
        if len(text) < SHORTEST_INSIDE:
            return number
        if self._structures and text in self._structures:
            return self._texts_of(self._structures[text])
        clean = self.text(text)
        return number if clean == text else clean

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        whole = self._whole_of(value)
        if whole is not None:
            return whole
        items = {self._value(key): self._value(item) for key, item in value.items()}
        same = len(items) == len(value) and all(
            new is old
            for pair in zip(items.items(), value.items(), strict=True)
            for new, old in zip(*pair, strict=True)
        )
        return value if same else items

    def _items(self, value: Any) -> Any:
        whole = self._whole_of(value)
        if whole is not None:
            return whole
        old = list(value)
        new = [self._value(item) for item in old]
        if all(one is other for one, other in zip(new, old, strict=True)):
            return value
        if isinstance(value, list):
            return new
        if isinstance(value, tuple):
            return tuple(new)
        try:
            return type(value)(new)
        except TypeError:
            # An item whose redaction cannot be in a set.
            return new

    def _whole_of(self, value: Any) -> Any:
        if not self._structures or isinstance(value, Set):
            return None
        # A copy: whoever is given it may change it. What it holds may have been redacted since.
        return self._texts_of(copy.deepcopy(self._structures.get(same_text(value))))

    def _texts_of(self, value: Any) -> Any:
        """Redact the texts of what was put in the place of a whole."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self._texts_of(key): self._texts_of(item) for key, item in value.items()}
            case list() | tuple():
                return type(value)(map(self._texts_of, value))
            case int() | float() if len(repr(value)) >= SHORTEST_INSIDE:
                clean = self.text(repr(value))
                return value if clean == repr(value) else clean
        return value

    def _octets(self, value: bytes | bytearray) -> Any:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return value
        clean = self.text(text)
        return value if clean == text else type(value)(clean.encode())

    def _object(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed = {
                field.name: new
                for field in dataclasses.fields(value)
                if field.init and (new := self._value(old := getattr(value, field.name, None))) is not old
            }
            value = _with_fields(value, changed)
        plain = plain_value(value)
        clean = self._value(plain) if isinstance(plain, str | int | float | bytes | Mapping | list) else plain
        if clean is not plain:
            return clean
        text = _printed(value)  # which is how a provider writes what is no JSON
        clean = self.text(text)
        return value if clean == text else clean


def _keys_of(value: object) -> tuple[str | None, str | None]:
    """Give the text under which a value is known, and that under which it is as a whole."""
    match value:
        case str():
            return value, None
        case None | bool():
            return None, None
        case int() | float():
            return repr(value), repr(value)
        case Mapping() | list() | tuple():
            return None, same_text(value)
    return None, None


def _written(value: object) -> str:
    """Give the text that stands where a text was: nothing for what is gone or has become something else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return value if isinstance(value, str) else ""


def _with_fields(value: Any, changed: Mapping[str, Any]) -> Any:
    try:
        return replace(value, **changed) if changed else value
    except Exception:  # noqa: BLE001
        # It does not take what it would hold: then its plain form is redacted.
        return value


def _printed(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001
        # What cannot be printed reaches nobody as text.
        return ""
