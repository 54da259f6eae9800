"""
Read conditions as trees: what is asked of what.

CEL's own parser has accepted a condition before, and hands out no tree. Here it is read once more, only to
see what its values look like; nothing is evaluated with what is found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..conditions.token_reader import NotUnderstoodError, TokenReader, without_blanks

__all__ = ("Expression", "read_expression")

# How tightly each binds what stands on both sides of it.
_BINDS = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}
_NAMED = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Expression:
    """
    Hold a part of a condition.

    Attributes:
        kind: A value that is written out, a name, a field of something, an element or entry of it, a call,
            with what it is called on first where it is on something, a list, a mapping, whose keys and values
            alternate, a choice between two, or an operator.
        word: The name, the field, what is called, or the operator.
        parts: The parts that it is made of.
        value: The value that is written out.
        is_on: Of a call, whether it is on something.
    """

    kind: Literal["value", "name", "field", "index", "call", "list", "map", "choice", "operator"]
    word: str = ""
    parts: tuple[Expression, ...] = ()
    value: Any = None
    is_on: bool = False


def read_expression(text: str) -> Expression:
    """
    Read a condition that CEL accepts.

    Raises:
        NotUnderstoodError: It has a form that is not known here.
    """
    return _Reader(without_blanks(text)).whole()


class _Reader(TokenReader):
    def whole(self) -> Expression:
        found = self._expression()
        self._needs("")
        return found

    def _expression(self) -> Expression:
        asked = self._operators(1)
        if not self._takes("?"):
            return asked
        then = self._expression()
        self._needs(":")
        return Expression("choice", parts=(asked, then, self._expression()))

    def _operators(self, least: int) -> Expression:
        found = self._unary()
        while (binds := self._binding()) >= least:
            word = self._take().text
            found = Expression("operator", word, (found, self._operators(binds + 1)))
        return found

    def _binding(self) -> int:
        return 0 if self._next.kind == "text" else _BINDS.get(self._next.text, 0)

    def _unary(self) -> Expression:
        for word in "!-":
            if self._takes(word):
                return Expression("operator", word, (self._unary(),))
        return self._member(self._primary())

    def _member(self, found: Expression) -> Expression:
        while True:
            if self._takes("."):
                name = self._name()
                if self._takes("("):
                    found = Expression("call", name, (found, *self._until(")")), is_on=True)
                else:
                    found = Expression("field", name, (found,))
            elif self._takes("["):
                found = Expression("index", parts=(found, self._expression()))
                self._needs("]")
            else:
                return found

    def _primary(self) -> Expression:
        if self._takes("("):
            found = self._expression()
            self._needs(")")
            return found
        if self._takes("["):
            return Expression("list", parts=tuple(self._until("]")))
        if self._takes("{"):
            return Expression("map", parts=tuple(self._entries()))
        if self._next.kind in ("text", "number"):
            return Expression("value", value=_value(self._take().text))
        name = self._name()
        if name in _NAMED:
            return Expression("value", value=_NAMED[name])
        return (
            Expression("call", name, tuple(self._until(")")))
            if self._takes("(")
            else Expression("name", name)
        )

    def _until(self, close: str) -> Iterator[Expression]:
        while not self._takes(close):
            yield self._expression()
            if not self._takes(","):
                self._needs(close)
                return

    def _entries(self) -> Iterator[Expression]:
        while not self._takes("}"):
            yield self._expression()
            self._needs(":")
            yield self._expression()
            if not self._takes(","):
                self._needs("}")
                return


def _value(word: str) -> Any:
    try:
        return ast.literal_eval(word.rstrip("uU") if word[0].isdigit() else word)
    except (ValueError, SyntaxError) as error:
        raise NotUnderstoodError(word) from error
