"""
Compare values with what vouches for them.

A value is compared as keys are (see `spelling`): NFC, without surrounding blanks and characters that are not
shown, 42 like "42". What is compared is the whole value, the host of a URL, or the domain of an address. A
text names a value if the words of the value stand in it, whole, in their order and next to each other; what
parts words, such as commas and quotes, is not compared.

URLs and addresses are read strictly, because what reads them later is not this: what two readers may take for
two hosts is none.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from ..._plain.spelling import Fold, spelt_text
from .paths import FieldError
from .spelling import MAX_KEY, key_text

Match: TypeAlias = Literal["exact", "host", "domain", "links"]
"""What of a value is compared: all of it, a part, or the host of each link that stands in it."""

MAX_TEXT = 65_536
"""So many characters of a text are searched for names."""

# Compiled when they are used: that takes milliseconds, and a hook is a process for each call.
_compiled: Callable[[str], re.Pattern[str]] = functools.cache(re.compile)

# Scripts that put no blanks between words: each letter is a word, on both sides of the comparison.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
# What never stands inside a name, and parts words as blanks do. A colon does, unless "//" follows.
_PARTING = r"\s\"'`´‘’‚‛“”„‟«»()\[\]{}<>,;|*=#、。，：；「」『』（）！？·"
_WORD = rf"[{_UNSPACED}]|(?:[^{_PARTING}:{_UNSPACED}]|:(?=//))+"
# What stands before and after a name in a sentence, and may as well be part of it.
_BEFORE = "@$€£¥&_…–—"
_AFTER = ".!?…-–—/_%&"
# A sentence that begins without a blank before it: "example.com.They".
_NEXT_SENTENCE = r"\.[A-Z][a-z]*$"

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
# A bare name such as example.com is none: so is the name of a file.
_LINK = r"(?i)[a-z][a-z0-9+.-]*://|//|www\.|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}/"
_SCHEME = r"(?i)[a-z][a-z0-9+.-]*://"
_ODD = r"[\s\\\x00-\x1f\x7f]"


class ValueReading:
    """
    Read values, and texts that name some, in one way.

    Attributes:
        match: What of a value is compared.
        fold: Which spellings are one besides.
    """

    __slots__ = ("_is_in_text", "_part", "fold", "match")

    def __init__(self, match: Match, fold: Fold | None) -> None:
        self.match = match
        self.fold = fold
        self._part: Callable[[str], str | None] | None = _PARTS.get(match)
        self._is_in_text = match == "links"

    def value(self, value: Any, name: str) -> str:
        """
        Write down what of a value is compared.

        Raises:
            FieldError: It is no text or number, is empty, or has no host or domain.
        """
        if self._part is None:
            text = key_text(value, name, fold=self.fold)
            if not text:
                raise FieldError(f"{name} is empty")
            return text
        part = self._part(value) if isinstance(value, str) else None
        if part is None:
            raise FieldError(f"{name} has no {self.match} that everybody reads alike")
        return part

    def words(self, text: str) -> list[tuple[str, ...]]:
        """
        List the words of a text that may name values, each in the spellings that it can be taken for.

        They are the hosts or the domains that stand in it, or all words.
        """
        words = _compiled(_WORD).findall(self._as_compared(text))
        if self._part is None:
            return [self._spellings(word) for word in words]
        parts = (self._part(_bare(word)) for word in words if "." in word or "://" in word)
        return [(part,) for part in parts if part is not None]

    def asked(self, value: Any, name: str) -> list[Any]:
        """List what has to be vouched for in a value: the value, or each link in it."""
        if not self._is_in_text or not isinstance(value, str):
            return [value]
        words = map(_bare, _compiled(_WORD).findall(spelt_text(value)))
        return [word for word in words if _compiled(_LINK).match(word)]

    def name(self, value: Any, name: str) -> list[str]:
        """
        List the words that have to stand in a text for it to name a value.

        Raises:
            FieldError: As for `value`, or there are no words in it.
        """
        spelt = self.value(value, name)
        if self._part is not None:
            return [spelt]
        text = self._as_compared(value) if isinstance(value, str) else spelt
        words = [self._spelt(word) for word in _compiled(_WORD).findall(text)]
        if not words:
            raise FieldError(f"{name} is empty")
        return words

    def _as_compared(self, text: str) -> str:
        if len(text) > MAX_TEXT:
            # A word that is cut is another one.
            *whole, _ = re.split(r"\s", text[:MAX_TEXT])
            text = " ".join(whole)
        return spelt_text(text, fold="case" if self.fold == "case" else None)

    def _spellings(self, word: str) -> tuple[str, ...]:
        bare = _bare(word)
        return (self._spelt(word),) if bare in ("", word) else (self._spelt(word), self._spelt(bare))

    def _spelt(self, word: str) -> str:
        # Of words, only numbers have more than one spelling that is left.
        return key_text(word, "", fold=self.fold) if word[-1:].isdigit() or len(word) > MAX_KEY else word


def _bare(word: str) -> str:
    """Give a word without what stands around it in a sentence."""
    return _compiled(_NEXT_SENTENCE).sub("", word.lstrip(_BEFORE).rstrip(_AFTER))


def reading_of(match: Match, fold: Fold | None) -> ValueReading:
    """Give the one way to read values for a match and a fold."""
    return _READINGS.setdefault((match, fold), ValueReading(match, fold))


_READINGS: dict[tuple[Match, Fold | None], ValueReading] = {}


def texts_in(value: Any, *, names: bool = False) -> Iterator[str]:
    """Give every text and number in plain data in its order, the `names` of entries too if asked for."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield str.__str__(part)
        elif isinstance(part, Mapping):
            if names:
                yield from (name for name in part if isinstance(name, str))
            waiting.extend(reversed(list(part.values())))
        elif isinstance(part, list | tuple):
            waiting.extend(reversed(part))
        elif isinstance(part, int | float | Decimal) and not isinstance(part, bool):
            yield str(part)


def _host_of(value: str) -> str | None:
    """Read the host of a URL, or of an address on the web without its scheme; None if that is not certain."""
    text = spelt_text(value)
    if not text or _compiled(_ODD).search(text):
        return None
    if not _compiled(_SCHEME).match(text):
        text = text if text.startswith("//") else f"//{text}"
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return None
    # What stands before the "@" is for people to misread.
    return None if host is None or "@" in parts.netloc else _one_host(host)


def _domain_of(value: str) -> str | None:
    """Read the domain of a mail address, or a domain that stands by itself; None if that is not certain."""
    text = spelt_text(value)
    local, at, domain = text.rpartition("@")
    if _compiled(_ODD).search(text) or any(mark in text for mark in "<>,;:\"'()"):
        return None
    if "@" in local or (at and not local):
        return None
    return _one_host(domain) if at or "." in domain else None


def _one_host(host: str) -> str | None:
    host = host.rstrip(".").lower()
    if not host.isascii():
        try:
            host = host.encode("idna").decode().lower()
        except UnicodeError:
            return None
    return host if len(host) <= 253 and _compiled(_HOST).fullmatch(host) else None


_PARTS: dict[str, Callable[[str], str | None]] = {"host": _host_of, "domain": _domain_of, "links": _host_of}
