"""
Find a value that is to be kept out in a text: as the whole of it, or as a part.

Letters and digits are compared, in any case; what stands between them is passed over, so that
"GB29 NWBK 6016" is in "iban=gb29-nwbk-6016". A short secret has to stand there as words of its own: "1234" is
not in "512347". One that is encoded, translated or spelt out is not found.
"""

from __future__ import annotations

import re
from typing import Any

from ..._plain.arguments import plain_value
from ..._plain.spelling import spelt_text
from ..._plain.unseen import unseen_in
from .paths import UnreadableError
from .provenance import texts_in

# From this length on, a secret is found inside of a word too.
_LONG = 8
_WORD = re.compile(r"[^\W_]+")


class Searched:
    """
    Hold a value in the forms in which secrets are looked for in it.

    Raises:
        UnreadableError: Something in it cannot be looked into.
    """

    __slots__ = ("_close", "_spaced")

    def __init__(self, value: Any, name: str) -> None:
        seen = plain_value(value)
        for unseen in unseen_in(seen):
            raise UnreadableError(name, unseen)
        words = _words("\n".join(texts_in(seen, names=True)))
        self._spaced = f" {' '.join(words)} "
        self._close = "".join(words)

    def has(self, secret: str) -> bool:
        """Tell whether what `searched_for` gave is in it."""
        return secret in (self._spaced if secret[0] == " " else self._close)

    def parts(self, length: int, *, short: bool) -> set[str]:
        """List every part of a length that a secret could be: a `short` one, or a long one."""
        text = self._spaced if short else self._close
        return {text[start : start + length] for start in range(len(text) - length + 1)}


def searched_for(value: Any) -> str | None:
    """Give the form in which a secret is looked for; None for what has no letters and digits."""
    if value is None or isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    words = _words(str(value))
    if not words:
        return None
    close = "".join(words)
    return close if len(close) >= _LONG else f" {' '.join(words)} "


def _words(text: str) -> list[str]:
    return _WORD.findall(spelt_text(text, fold="case"))
