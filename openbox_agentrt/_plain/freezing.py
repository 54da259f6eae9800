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
    ``{"$redacted": "..."}``         a secret that is neither text nor a number, if exact; with ``$unseen``
                                     if contracts cannot look into it

Dataclasses and models are read field by field, so that no method of theirs runs and each field has a name
that redaction can go by.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Protocol

from .._values import dataclass
from .codec import CONTAINERS, MAX_SIZE, TAGS, Marked, codec, plain_json
from .digest import text_digest
from .objects import error_name, name_of
from .unseen import Unseen
from .walk import Json, Walker, object_text

_SHORT_TEXT = 256
# Python refuses to print very long whole numbers in decimals. Where that begins is a setting; never below
# this.
_MAX_BITS = 2_000


@dataclass(frozen=True, slots=True)
class Concealed:
    """Wrap a value that must not be recorded as it is."""

    value: Any


class Concealer(Protocol):
    """Say what must not be recorded as it is."""

    def conceal_named(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Give the names and values of a mapping with the secret values in it wrapped."""

    def conceal_items(self, items: list[Any]) -> list[Any]:
        """Give the items of a list with the secrets in it wrapped."""

    def marker(self, value: Json) -> str:
        """Give what stands in for a secret."""

    def redact_text(self, text: str) -> str:
        """Give the text without the secrets in it."""


def freeze(value: object, concealer: Concealer | None = None, *, exact: bool = False) -> Json:
    """
    Take a value as plain JSON data, without secrets if a concealer is given.

    With `exact`, `thawed` gives back what contracts saw: decimals are told from text, and what they could not
    look into from data.

    Whatever the value is, this raises nothing but what the interpreter itself raises for want of memory or
    stack.
    """
    if concealer is None and type(value) in CONTAINERS:
        # The common case is JSON data already, and a round trip through JSON is the fastest copy there is.
        data = plain_json(value, codec().encode)
        if data is not None:
            copy: Json = codec().decode(data)
            return copy
    frozen: Json = (_ExactFreezer if exact else _Freezer)(concealer).walk(value)
    return frozen


class _Freezer(Walker):
    __slots__ = ("_concealer", "_left")

    def __init__(self, concealer: Concealer | None) -> None:
        super().__init__()
        self._concealer = concealer
        self._left = MAX_SIZE

    def text(self, text: str) -> Json:
        if len(text) > _SHORT_TEXT:
            self._left -= len(text) >> 6
            if self._left < 0:
                digest = text_digest(text)
                start = self.text(text[:_SHORT_TEXT])
                return Marked({"$cut": "size", "length": len(text), "sha256": digest, "start": start})
        if self._concealer is not None:
            text = self._concealer.redact_text(text)
        return text if text.isascii() or _is_unicode(text) else Marked({"$text": _escaped(text)})

    def whole(self, number: int) -> Json:
        return number if number.bit_length() <= _MAX_BITS else Marked({"$int": hex(number)})

    def not_finite(self, number: float) -> Json:
        return Marked({"$float": repr(number)})

    def octets(self, data: bytes) -> Json:
        import base64

        text = self.text(base64.b64encode(data).decode())
        return text if isinstance(text, dict) else Marked({"$bytes": text})

    def mapping(self, pairs: list[tuple[Any, Any]], depth: int) -> Json:
        if self._concealer is not None:
            pairs = self._concealer.conceal_named(pairs)
        room = max(self._left, 0)
        self._left -= len(pairs)
        names = [_key_text(key) for key, _ in pairs[:room]]
        values = [self.walk(value, depth) for _, value in pairs[:room]]
        frozen: dict[str, Json]
        if None in names or len(set(names)) < len(names) or not TAGS.isdisjoint(names):
            keys = [self.walk(key, depth) for key, _ in pairs[:room]]
            frozen = Marked({"$mapping": [[key, value] for key, value in zip(keys, values, strict=True)]})
        else:
            frozen = {name: value for name, value in zip(names, values, strict=True) if name is not None}
        if self._concealer is not None:
            frozen = type(frozen)({self._concealer.redact_text(name): each for name, each in frozen.items()})
        return frozen if room >= len(pairs) else Marked({**frozen, "$cut": "size"})

    def other(self, value: Any, kind: type, depth: int) -> Json:
        if kind is Marked:
            # It was frozen before. As a caller's mapping, it would be marked once more.
            pairs = list(value.items())
            if self._concealer is not None:
                pairs = self._concealer.conceal_named(pairs)
            return Marked({name: self.walk(part, depth + 1) for name, part in pairs})
        if kind is Concealed and self._concealer is not None:
            # Without looking for secrets inside, so that a secret has one marker wherever it stood.
            return self._concealer.marker(_Freezer(None).walk(value.value, depth))
        other: Json = super().other(value, kind, depth)
        return other

    def items(self, items: list[Any], depth: int) -> list[Json]:
        if self._concealer is not None:
            items = self._concealer.conceal_items(items)
        frozen: list[Json] = []
        for item in items:
            self._left -= 1
            if self._left < 0:
                frozen.append(Marked({"$cut": "size"}))
                break
            frozen.append(self.walk(item, depth))
        return frozen

    def unordered(self, items: list[Any], depth: int) -> Json:
        return Marked(
            {"$set": sorted(self.items(items, depth), key=lambda item: json.dumps(item, sort_keys=True))}
        )

    def opaque(self, value: object, kind: type) -> Json:
        frozen = Marked({"$object": name_of(kind)})
        own: Any = kind
        if own.__str__ is not object.__str__ or own.__repr__ is not object.__repr__:
            frozen["text"] = self.text(object_text(value))
        return frozen

    def cyclic(self, kind: type) -> Json:
        return Marked({"$cycle": name_of(kind)})

    def too_deep(self) -> Json:
        return Marked({"$cut": "depth"})

    def unreadable(self, kind: type, error: Exception) -> Json:
        return Marked({"$error": error_name(error), "$object": name_of(kind)})


class _ExactFreezer(_Freezer):
    """The marks of steps, from which decisions are derived again."""

    __slots__ = ()

    def other(self, value: Any, kind: type, depth: int) -> Json:
        from decimal import Decimal

        if kind is not Concealed and issubclass(kind, Decimal):
            return Marked({"$decimal": str(value)})
        if kind is Concealed and self._concealer is not None:
            secret = value.value
            if isinstance(secret, Decimal) and not secret.is_finite():
                secret = math.nan
            return _marked(_as_text(_Freezer(None).walk(secret)), self._concealer)
        return super().other(value, kind, depth)

    def unseen(self, value: Unseen) -> Json:
        return Marked({"$unseen": value.why})

    def opaque(self, value: object, kind: type) -> Json:
        return Marked({"$unseen": "opaque", "of": super().opaque(value, kind)})


def thawed(value: Any) -> Any:
    """Give back what was frozen exactly, as far as contracts look at it."""
    if isinstance(value, list):
        return [thawed(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$decimal": str() as text, **rest} if not rest:
            from decimal import Decimal

            return Decimal(text)
        case {"$unseen": str() as why}:
            return Unseen(why)  # type: ignore[arg-type]  # as it was written
        case {"$float": str() as text, **rest} if not rest:
            return float(text)
        case {"$int": str() as text, **rest} if not rest:
            return int(text, 16)
        case {"$text": str() as text, **rest} if not rest:
            return re.sub(_ESCAPE, lambda found: chr(int(found[1], 16)), text)
        case {"$bytes": str() as text, **rest} if not rest:
            import base64

            return base64.b64decode(text)
        case {"$set": list() as items, **rest} if not rest:
            return _set_of(thawed(items))
        case {"$mapping": list() as pairs, **rest} if not rest:
            return {_hashable(thawed(name)): thawed(each) for name, each in pairs}
        case {"$cycle": str(), **rest} if not rest:
            return Unseen("cycle")
        case {"$cut": "depth", **rest} if not rest:
            return Unseen("too deep")
        case {"$error": str()}:
            return Unseen("unreadable")
    return {name: thawed(each) for name, each in value.items()}


def marked_again(value: Any) -> Any:
    """Give what was frozen and then written as JSON as it was frozen: marks are told from data."""
    if isinstance(value, list):
        return [marked_again(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = dict if TAGS.isdisjoint(value) else Marked
    return kind({name: marked_again(each) for name, each in value.items()})


def _set_of(items: list[Any]) -> Any:
    try:
        return set(items)
    except TypeError:
        # A set of sets, which are lists here.
        return items


def _hashable(name: Any) -> Any:
    return name if isinstance(name, str | int | float | bool | type(None)) else json.dumps(name, default=str)


def _marked(secret: Json, concealer: Concealer) -> Json:
    """Give what stands in for a secret. A text in the place of what is no key would pass for one."""
    marker = concealer.marker(secret)
    if isinstance(secret, dict) and not _TEXTS.isdisjoint(secret):
        return marker
    if type(secret) is Marked and "$set" not in secret:
        # Nor is it a part of one, as a list is where all arguments together are the key.
        return Marked({"$redacted": marker, "$unseen": "opaque"})
    is_no_key = secret is None or isinstance(secret, bool | list | dict)
    return Marked({"$redacted": marker}) if is_no_key else marker


def _as_text(secret: Json) -> Json:
    """Give bytes as the text that contracts take them for."""
    if not (isinstance(secret, dict) and "$bytes" in secret):
        return secret
    try:
        text: str = thawed(secret).decode()
    except UnicodeDecodeError:
        return secret
    return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Text that is not Unicode, or that is long.
_TEXTS = frozenset(("$text", "length"))
# Half of a character, which is all that is not Unicode in a text.
_ESCAPE = r"\\u(d[89a-f][0-9a-f]{2})"


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _key_text(key: Any) -> str | None:
    """Give a key as JSON writes it, or None where it has no such form."""
    kind = type(key)
    if kind is bool or key is None:
        return json.dumps(key)
    if kind is float or (kind is int and key.bit_length() <= _MAX_BITS):
        return repr(key)
    if issubclass(kind, str):
        text = str.__str__(key)
        return text if text.isascii() or _is_unicode(text) else None
    return None
