"""
How values are spelt that tell budgets apart.

One customer has one budget, however the id is written. The number 42, the text "42" and the text "42.0" are
one key; letters are compared in Unicode normal form C, as names of tools are; blanks around a value and
characters that are not shown are no part of it. What is left, a person can tell apart, and so it is told
apart here: "007" and "7", "1.1" and "1.10", "Ann" and "ann" are two keys each, unless `fold` says otherwise.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from ..._plain.amounts import AmountError, read_amount, show
from ..._plain.arguments import plain_value
from ..._plain.unseen import Unseen
from .paths import FieldError, UnreadableError

Fold: TypeAlias = Literal["case", "number"]

MAX_KEY = 128
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
# Not shown, though their category is that of letters or marks: fillers, joiners, variation selectors.
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_UNSEEN = frozenset({"Cf", "Cc"})


def key_text(value: Any, name: str, *, fold: Fold | None = None) -> str:
    """
    Write a value as the key of an automaton. Long text is kept as its hash.

    Raises:
        FieldError: The value is missing, a boolean, not finite, or a container.
    """
    if isinstance(value, str):
        text = _folded(str.__str__(value), fold)
    elif isinstance(value, Unseen):
        raise UnreadableError(name, value)
    elif value is None or isinstance(value, bool):
        raise FieldError(f"{name} must be text or a number, got {value}")
    elif isinstance(value, (int, float, Decimal)):
        text = _number_text(value, name)
    else:
        return _of_object(value, name, fold)
    if len(text) > MAX_KEY:
        return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text


def _of_object(value: Any, name: str, fold: Fold | None) -> str:
    """Write an object as the data that contracts see of it, such as the text of a UUID."""
    seen = plain_value(value)
    if isinstance(seen, dict | list | tuple | bytes):
        raise FieldError(f"{name} must be text or a number, got {type(value).__name__}")
    return key_text(seen, name, fold=fold)


def _folded(text: str, fold: Fold | None) -> str:
    if not (text.isascii() and text.isprintable()):
        text = _visible(text)
    text = text.strip()
    if fold == "number":
        return _by_value(text)
    if fold == "case":
        # Folding may take letters apart again.
        text = unicodedata.normalize("NFC", text.casefold())
    if text.endswith("0"):
        whole = _WHOLE.fullmatch(text)
        text = text if whole is None else whole[1]
        return "0" if text == "-0" else text
    return text


def _visible(text: str) -> str:
    left = _IGNORED.sub("", text)
    seen = "".join(c for c in left if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return unicodedata.normalize("NFC", seen)


def _by_value(text: str) -> str:
    try:
        return _number_text(read_amount(text, text=True, negative=True), "")
    except AmountError:
        return text


def _number_text(value: float | Decimal, name: str) -> str:
    try:
        amount = read_amount(value, negative=True)
    except AmountError as error:
        raise FieldError(f"{name} {error}") from None
    whole = int(amount)
    # 42.0 is 42. What is not whole has one spelling: 0.50 is 0.5.
    return str(whole) if whole == amount else show(amount).rstrip("0")
