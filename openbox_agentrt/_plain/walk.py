"""
Values as they are recorded.

`freeze` takes any Python value and gives plain JSON data: mappings with text keys, lists, text, whole
numbers, finite floats, booleans and None. The result shares nothing with what it was taken from, holds no
memory address and no order that chance decides, and is the same after a reload.

What JSON cannot hold is recorded as such, in a mapping with a key that starts with ``$``:

    ``{"$float": "nan"}``            not a number, infinity
    ``{"$int": "0x1000..."}``        a whole number of more than 600 digits
    ``{"$bytes": "aGk="}``           bytes, as Base64
    ``{"$set": [...]}``              a set, sorted
    ``{"$text": "\\\\ud800"}``         text that is not Unicode, escaped
    ``{"$mapping": [[k, v], ...]}``  a mapping whose keys are not all text, or that would read as one of these
    ``{"$object": "pkg.Type", "text": "..."}``   any other object
    ``{"$cycle": "builtins.list"}``  a container inside itself
    ``{"$cut": "depth"}``            nested too deeply, or too much of it
    ``{"$error": "RuntimeError"}``   looking at it raised

Dataclasses and models are read field by field, so that no method of theirs runs and each field has a name
that redaction can go by.
"""

import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Set
from typing import Any, Protocol, TypeAlias

from .codec import CONTAINERS, MAX_DEPTH, MAX_SIZE, TAGS, codec, plain_json
from .objects import error_name, fields_of, name_of, scalars

__all__ = ("Concealer", "Json", "freeze")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_SHORT_TEXT = 256
_OBJECT_TEXT = 1_000
# Python refuses to print very long whole numbers in decimals. Where that begins is a setting; never below
# this.
_MAX_BITS = 2_000
_ADDRESS = re.compile(r"(?: at)? 0x[0-9a-fA-F]{6,16}\b")


class Concealer(Protocol):
    """What must not be recorded as it is."""

    def hides(self, name: str) -> bool:
        """Whether the value under this name is a secret."""

    def marker(self, value: Json) -> str:
        """What stands in for a secret."""

    def redact_text(self, text: str) -> str:
        """The text without the secrets in it."""


def freeze(value: object, concealer: Concealer | None = None) -> Json:
    """
    Take a value as plain JSON data, without secrets if a concealer is given.

    Whatever the value is, this raises nothing but what the interpreter itself raises for want of memory or
    stack.
    """
    if concealer is None and type(value) in CONTAINERS:
        # The common case is JSON data already, and a round trip through JSON is the fastest copy there is.
        data = plain_json(value, codec().encode)
        if data is not None:
            copy: Json = codec().decode(data)
            return copy
    return _Freezer(concealer).freeze(value, 0)


class _Freezer:
    __slots__ = ("_concealer", "_left", "_open")

    def __init__(self, concealer: Concealer | None) -> None:
        self._concealer = concealer
        self._left = MAX_SIZE
        self._open: set[int] = set()

    def freeze(self, value: Any, depth: int) -> Json:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is bool or value is None:
            return value  # type: ignore[no-any-return]  # narrowed by `kind`, which mypy does not follow
        if kind is int:
            return _whole(value)
        if kind is float:
            # A finite float minus itself is zero; NaN and the infinities give NaN.
            return value if value - value == 0 else {"$float": repr(value)}
        if kind is dict:
            return self._mapping(value, list(value.items()), depth)
        if kind is list or kind is tuple:
            return self._items(value, value, depth)
        try:
            return self._other(value, kind, depth)
        except Exception as error:  # noqa: BLE001
            # The value's own code ran and failed. That it did is what there is to record.
            return {"$error": error_name(error), "$object": name_of(kind)}

    def _text(self, text: str) -> Json:
        if len(text) > _SHORT_TEXT:
            self._left -= len(text) >> 6
            if self._left < 0:
                digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                start = self._text(text[:_SHORT_TEXT])
                return {"$cut": "size", "length": len(text), "sha256": digest, "start": start}
        if self._concealer is not None:
            text = self._concealer.redact_text(text)
        return text if text.isascii() or _is_unicode(text) else {"$text": _escaped(text)}

    def _mapping(self, owner: object, pairs: list[tuple[Any, Any]], depth: int) -> Json:
        problem = self._enter(owner, depth)
        if problem is not None:
            return problem
        room = max(self._left, 0)
        self._left -= len(pairs)
        names = [_key_text(key) for key, _ in pairs[:room]]
        values = [self._named(name, value, depth) for name, (_, value) in zip(names, pairs, strict=False)]
        frozen: dict[str, Json]
        if None in names or len(set(names)) < len(names) or not TAGS.isdisjoint(names):
            keys = [self.freeze(key, depth + 1) for key, _ in pairs[:room]]
            frozen = {"$mapping": [[key, value] for key, value in zip(keys, values, strict=True)]}
        else:
            frozen = {name: value for name, value in zip(names, values, strict=True) if name is not None}
        if self._concealer is not None:
            frozen = {self._concealer.redact_text(name): value for name, value in frozen.items()}
        if room < len(pairs):
            frozen["$cut"] = "size"
        self._open.discard(id(owner))
        return frozen

    def _named(self, name: str | None, value: Any, depth: int) -> Json:
        frozen = self.freeze(value, depth + 1)
        if self._concealer is not None and name is not None and self._concealer.hides(name):
            return self._concealer.marker(frozen)
        return frozen

    def _items(self, owner: object, items: Iterable[Any], depth: int) -> Json:
        problem = self._enter(owner, depth)
        if problem is not None:
            return problem
        frozen: list[Json] = []
        for item in items:
            self._left -= 1
            if self._left < 0:
                frozen.append({"$cut": "size"})
                break
            frozen.append(self.freeze(item, depth + 1))
        self._open.discard(id(owner))
        return frozen

    def _enter(self, owner: object, depth: int) -> Json:
        if id(owner) in self._open:
            return {"$cycle": name_of(type(owner))}
        if depth >= MAX_DEPTH:
            return {"$cut": "depth"}
        self._open.add(id(owner))
        return None

    def _other(self, value: Any, kind: type, depth: int) -> Json:
        # The type decides, not isinstance(): that would ask the value for its `__class__`, which may lie
        # or raise.
        if issubclass(kind, str):
            return self._text(str.__str__(value))
        if issubclass(kind, int):
            return _whole(int.__int__(value))
        if issubclass(kind, float):
            return self.freeze(float.__float__(value), depth)
        if issubclass(kind, bytes | bytearray | memoryview):
            return self._bytes(bytes(value))
        if issubclass(kind, Mapping):
            return self._mapping(value, list(value.items()), depth)
        if issubclass(kind, list | tuple | deque):
            return self._items(value, list(value), depth)
        if issubclass(kind, Set):
            return self._set(value, depth)
        fields = fields_of(value, kind)
        if fields is not None:
            return self._mapping(value, fields, depth)
        if issubclass(kind, scalars()):
            return self._text(str(value))
        return self._object(value, kind)

    def _set(self, value: Iterable[Any], depth: int) -> Json:
        items = self._items(value, list(value), depth)
        if not isinstance(items, list):
            return items
        return {"$set": sorted(items, key=lambda item: json.dumps(item, sort_keys=True))}

    def _bytes(self, data: bytes) -> Json:
        text = self._text(base64.b64encode(data).decode())
        return text if isinstance(text, dict) else {"$bytes": text}

    def _object(self, value: object, kind: type) -> Json:
        frozen: dict[str, Json] = {"$object": name_of(kind)}
        own: Any = kind
        if own.__str__ is not object.__str__ or own.__repr__ is not object.__repr__:
            text = str.__str__(str(value))[:_OBJECT_TEXT]
            frozen["text"] = self._text(_ADDRESS.sub("", text))
        return frozen


def _whole(number: int) -> Json:
    return number if number.bit_length() <= _MAX_BITS else {"$int": hex(number)}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _key_text(key: Any) -> str | None:
    """A key as JSON writes it, or None where it has no such form."""
    kind = type(key)
    if kind is bool or key is None:
        return json.dumps(key)
    if kind is float or (kind is int and key.bit_length() <= _MAX_BITS):
        return repr(key)
    if issubclass(kind, str):
        text = str.__str__(key)
        return text if text.isascii() or _is_unicode(text) else None
    return None
