"""
Secrets, kept out of everything that leaves the process.

A `Redactor` is told which names carry secrets and which values look like one. It walks whatever it is given -
nested containers, dataclasses, models, JSON inside text, ``name=value`` inside text - and puts a marker in
the place of each secret. The marker is an HMAC under a key that never leaves the process: the same secret
gives the same marker, so that an auditor can see that two calls used one token, but nobody who holds only
the markers can find out a PIN by trying them all.
"""

import json
import os
import re
from collections.abc import Iterable
from typing import Any, Final

from ..._plain.freezing import Concealed, freeze
from ..._plain.walk import Json
from .known_secrets import SECRET_OR_WORD, SECRET_PATTERNS
from .markers import MARKED, redaction_marker

_MAX_JSON_TEXT = 1 << 20
_MAX_JSON_DEPTH = 64
_MAX_REMEMBERED_NAMES = 2048
_COMMAND_WORDS = 3
_LONGEST_NAME = 64
# A value that nothing but its name makes a secret.
_ANY_VALUE = "a value"

# Mappings that say a name and its value, as lists of headers, settings and tags do.
_NAME_KEYS: Final = frozenset(("name", "key", "field", "header", "parameter", "variable"))
_VALUE_KEYS: Final = frozenset(("value", "values", "val", "content"))


class Redactor:
    """
    Replaces secrets by markers.

    Args:
        fields: Names whose values are secrets, compared without regard to case. A name with ``*``, ``?``
            or ``[`` is a glob. One name given as text is one name.
        patterns: Values that are secrets wherever they stand, as regular expressions; see
            `SECRET_PATTERNS`. Those given as text run on a linear-time engine. A group of the name
            ``secret`` is hidden alone.
        key: Key of the markers, at least 16 bytes. Random by default, so that markers can be compared
            within one process only; a signed `EvidenceFile` derives one from its signer.

    What is not found: a secret that stands in text without one of the names beside it and matches no pattern,
    and one that was encoded (Base64, compression) before it got here.
    """

    __slots__ = (
        "_any",
        "_compiled",
        "_conceal",
        "_exact",
        "_given",
        "_globs",
        "_has_own_key",
        "_key",
        "_remembered",
    )

    def __init__(
        self,
        fields: Iterable[str] | str = (),
        *,
        patterns: Iterable[str | re.Pattern[str]] = (),
        key: bytes | None = None,
    ) -> None:
        names = [_folded(name) for name in _names(fields)]
        globs = [name for name in names if any(mark in name for mark in "*?[")]
        if key is not None and len(key) < 16:
            raise ValueError("the key of a redactor has at least 16 bytes")
        self._exact = frozenset(names) - frozenset(globs)
        self._globs = _compiled_globs(globs) if globs else None
        self._conceal: Any = None
        if names:
            # Loaded here, as below: a hook has no time for what it has no use for.
            from .named_values import conceal_values

            self._conceal = conceal_values
        self._given = tuple(patterns)
        self._any: Any = None
        self._compiled: tuple[Any, ...] | None = None
        self._prepare()
        self._key = os.urandom(32) if key is None else key
        self._has_own_key = key is not None
        self._remembered: dict[str, bool] = {}

    @classmethod
    def of(cls, fields: "Redactor | Iterable[str] | str | None") -> "Redactor | None":
        """The redactor that an option asks for, or None where there is nothing to hide."""
        redactor = fields if isinstance(fields, Redactor) else cls(() if fields is None else fields)
        return redactor if redactor.active else None

    def keyed(self, key: bytes) -> "Redactor":
        """Give this redactor with a key for its markers, unless it was made with one."""
        if self._has_own_key:
            return self
        other = self._twin()
        other._key, other._remembered = key, {}
        return other

    def _twin(self) -> "Redactor":
        # As `copy.copy` does, which takes longer to load than a hook has time.
        twin = object.__new__(type(self))
        slots = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in (*slots, *getattr(self, "__dict__", ())):
            setattr(twin, name, getattr(self, name))
        return twin

    @property
    def key(self) -> bytes:
        """Key of the markers. Whoever holds it can try out what a marker stands for."""
        return self._key

    @property
    def active(self) -> bool:
        """True if there is anything to look for."""
        return bool(self._exact or self._globs or self._given)

    def redact(self, value: object) -> Json:
        """A copy of a value as plain JSON data, with markers for the secrets in it."""
        return freeze(value, self)

    def redact_text(self, text: str) -> str:
        """A text with markers for the secrets in it, those inside JSON included."""
        if self._conceal is not None:
            text = self._redact_json(text)
            text = self._conceal(text, self.hides, self.marker)
        # Most texts hold no secret, and one look at all patterns costs what a look at each one does.
        return self._mark_found(text) if self._finds_in(text) else text

    def _prepare(self) -> None:
        self._any = _any_of(self._given)
        if self._any is None or self._given is not SECRET_PATTERNS:
            # Whether somebody else's compile is told at once. Ours do, and few texts need each by itself.
            self._compile()

    def _finds_in(self, text: str) -> bool:
        return bool(self._given) and (self._any is None or self._any.search(text) is not None)

    def _mark_found(self, text: str) -> str:
        for pattern in self._patterns_for(text):
            text = pattern.sub(self._mark, text)
        return text

    def _patterns_for(self, text: str) -> tuple[Any, ...]:
        return self._compiled or self._compile()

    def _compile(self) -> tuple[Any, ...]:
        self._compiled = tuple(compiled(pattern) for pattern in self._given)
        return self._compiled

    def conceal_named(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """
        Wrap the secret values of a mapping in `Concealed`.

        A value is one under a secret name, or beside it: ``{"name": "password", "value": "1234"}``.
        """
        if any(name == "$cut" for name, _ in pairs):
            # The digest of what was cut: it was made of what is hidden, and a short secret could be guessed.
            return [(name, Concealed(value) if name == "sha256" else value) for name, value in pairs]
        hidden = [self._hides(name) for name, _ in pairs]
        if len(pairs) > 1 and self._says_secret_name(pairs):
            hidden = [
                hides or _lowered(name) in _VALUE_KEYS for hides, (name, _) in zip(hidden, pairs, strict=True)
            ]
        if not any(hidden):
            return pairs
        return [
            (name, Concealed(value) if hides else value)
            for hides, (name, value) in zip(hidden, pairs, strict=True)
        ]

    def conceal_items(self, items: list[Any]) -> list[Any]:
        """
        Wrap the secrets of a list in `Concealed`.

        One is the item after an option with a secret name, as in ``["--password", "1234"]``, the word of a
        command that a pattern finds in its text, as in ``["curl", "-u", "ann:1234"]``, and the second of a
        pair in a list of pairs, as of headers.
        """
        if not items or not self.active:
            return items
        if all(isinstance(item, list | tuple) and len(item) == 2 for item in items):
            return [[item[0], Concealed(item[1])] if self._hides(item[0]) else item for item in items]
        if not any(isinstance(item, str) and item.startswith("-") for item in items):
            return items
        is_found = all(isinstance(item, str) for item in items) and self._finds_in(" ".join(items))
        return [
            Concealed(item)
            if self._is_named_before(items, index) or (is_found and self._is_found_after(items, index))
            else item
            for index, item in enumerate(items)
        ]

    def _is_named_before(self, items: list[Any], index: int) -> bool:
        option = items[index - 1] if index else None
        return isinstance(option, str) and option.startswith("-") and self._hides(option.lstrip("-"))

    def _is_found_after(self, words: list[str], index: int) -> bool:
        """Tell whether a word of a command is a secret because of the words before it."""
        if index == 0 or not (words[index].startswith("-") or words[index - 1].startswith("-")):
            return False
        # Which command it is, and which option.
        before = " ".join(
            (*words[: min(index, _COMMAND_WORDS)], *words[max(index - 1, _COMMAND_WORDS) : index])
        )
        whole = self.redact_text(f"{before} {words[index]}")
        return whole != f"{self.redact_text(before)} {self.redact_text(words[index])}"

    def _hides(self, name: Any) -> bool:
        if isinstance(name, bytes):
            name = name.decode("utf-8", "replace")
        return isinstance(name, str) and self.hides(name)

    def _says_secret_name(self, pairs: list[tuple[Any, Any]]) -> bool:
        return any(_lowered(name) in _NAME_KEYS and self._hides(value) for name, value in pairs)

    def _mark(self, match: re.Match[str]) -> str:
        groups, whole = match.re.groupindex, match.group()
        group = groups.get("secret", 0) or groups.get(SECRET_OR_WORD, 0)
        secret = match.group(group)
        if secret is None or secret.strip("\"'\\").startswith(MARKED.rstrip("(")):
            return whole
        from .named_values import is_word_for_value, quote_of

        if group == groups.get(SECRET_OR_WORD) and is_word_for_value(secret):
            return whole
        start, end = (position - match.start() for position in match.span(group))
        quote = quote_of(secret) if group else ""
        hidden = self.marker(secret.strip(quote) if quote else secret)
        return f"{whole[:start]}{quote}{hidden}{quote}{whole[end:]}"

    def hides(self, name: str) -> bool:
        """Say whether the value under a name is a secret."""
        known = self._remembered.get(name)
        if known is None:
            folded = _folded(name)
            known = folded in self._exact or bool(self._globs and self._globs.match(folded))
            known = known or self._is_name_in_text(name)
            if len(self._remembered) >= _MAX_REMEMBERED_NAMES:
                # Names come from arguments, so there may be any number of them.
                self._remembered.clear()
            self._remembered[name] = known
        return known

    def _is_name_in_text(self, name: str) -> bool:
        """Tell whether a pattern hides what stands after a name in text."""
        if len(name) > _LONGEST_NAME:
            return False
        texts = [f"{name}{joint}{_ANY_VALUE}" for joint in (": ", "=")]
        return any(self._finds_in(text) and self._mark_found(text).rfind(_ANY_VALUE) < 0 for text in texts)

    def marker(self, value: object) -> str:
        """Give the text that stands in for a secret, under the key of this redactor."""
        # Loaded with the first secret: not every process has one.
        from ..._plain.spelling import spelt

        # As contracts compare keys, so that one customer has one marker.
        return redaction_marker(spelt(value), self._key)

    def _redact_json(self, text: str) -> str:
        start = text.lstrip()[:1]
        if start not in ("{", "[", '"') or len(text) > _MAX_JSON_TEXT:
            return text
        try:
            tree = json.loads(text)
        except ValueError:
            return text
        except RecursionError:
            # Fail closed: what is nested too deeply to look into is hidden as a whole.
            return self.marker(text)
        redacted = self._redact_tree(tree, 0)
        return text if redacted is tree else json.dumps(redacted, separators=(",", ":"))

    def _redact_tree(self, node: Any, depth: int) -> Any:
        """Parsed JSON with markers; the same object if there was nothing to hide."""
        if depth > _MAX_JSON_DEPTH:
            return self.marker(node)
        if isinstance(node, Concealed):
            return self.marker(node.value)
        if isinstance(node, dict):
            pairs = {
                name: self._redact_tree(value, depth + 1)
                for name, value in self.conceal_named(list(node.items()))
            }
            return node if all(pairs[name] is value for name, value in node.items()) else pairs
        if isinstance(node, list):
            items = [self._redact_tree(item, depth + 1) for item in self.conceal_items(node)]
            return node if all(new is old for new, old in zip(items, node, strict=True)) else items
        if isinstance(node, str):
            redacted = self.redact_text(node)
            return node if redacted == node else redacted
        return node


def redactor_of(fields: Iterable[str] | str | None) -> Redactor:
    """Make a redactor for the given names, and in any case for what looks like a key or a token."""
    return Redactor(() if fields is None else fields, patterns=SECRET_PATTERNS)


def _names(fields: Iterable[str] | str) -> list[str]:
    names = [fields] if isinstance(fields, str) else list(fields)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a name to redact is text, not {name!r}")
        if not name:
            raise ValueError("a name to redact is not empty")
    return names


def _lowered(name: Any) -> str:
    return name.lower() if isinstance(name, str) else ""


def _compiled_globs(globs: list[str]) -> re.Pattern[str]:
    import fnmatch

    return re.compile("|".join(map(fnmatch.translate, globs)))


def _folded(name: str) -> str:
    # NFKC, so that full-width letters do not get a secret past its name.
    if name.isascii():
        return name.casefold()
    import unicodedata

    return unicodedata.normalize("NFKC", name).casefold()


def compiled(pattern: str | re.Pattern[str]) -> Any:
    if isinstance(pattern, re.Pattern):
        return pattern
    import re2  # loaded here: a hook whose texts hold no word of a secret searches for none

    try:
        return re2.compile(pattern)
    except re2.error as error:
        raise ValueError(f"pattern to redact does not compile: {pattern!r}") from error


def _any_of(patterns: tuple[str | re.Pattern[str], ...]) -> Any:
    """Compile one pattern for all of them, or give None where there is none or it cannot be made."""
    texts = [pattern for pattern in patterns if isinstance(pattern, str)]
    if not texts or len(texts) < len(patterns):
        return None
    # Two groups of one pattern cannot have one name.
    nameless = (re.sub(r"\(\?P?<[A-Za-z_]\w*>", "(?:", text) for text in texts)
    try:
        return compiled("|".join(f"(?:{text})" for text in nameless))
    except ValueError:
        # Fine each by itself and not together, e.g. because of a limit on their size.
        return None
