"""Read the tokens of a condition one after another, which CEL has accepted before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...condition.source import ConditionToken, tokens_of

__all__ = ("END", "NotUnderstoodError", "TokenReader", "without_blanks")

END = ConditionToken("end", "")
"""What stands behind the last token."""


class NotUnderstoodError(ValueError):
    """A condition says something that is not known here."""


def without_blanks(text: str) -> list[ConditionToken]:
    """Split a condition into its tokens, without blanks and comments."""
    return [token for token in tokens_of(text) if token.kind != "blank"]


class TokenReader:
    """
    Go through tokens up to an end that stands behind the last of them, and is never passed.

    Raises:
        NotUnderstoodError: Whichever method takes a token: it is another than it has to be.
    """

    def __init__(self, tokens: Sequence[ConditionToken]) -> None:
        self._tokens = [*tokens, END]
        self._at = 0

    @property
    def _next(self) -> ConditionToken:
        return self._tokens[self._at]

    def _take(self) -> ConditionToken:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _takes(self, word: str) -> bool:
        """Take a token if it is this one, and tell whether it was. No text is."""
        taken = self._next.text == word and self._next.kind != "text"
        if taken:
            self._take()
        return taken

    def _needs(self, word: str) -> None:
        self._needs_one((word,))

    def _needs_one(self, words: Iterable[str]) -> str:
        word = self._take().text
        if word not in words:
            raise NotUnderstoodError(word)
        return word

    def _name(self) -> str:
        token = self._take()
        if token.kind != "name":
            raise NotUnderstoodError(token.text)
        return token.text.strip("`")
