"""
Spell values that are told apart: as keys of contracts, and behind redaction markers.

The number 42, the text "42" and the text "42.0" are one value; letters are compared in Unicode normal form
C, as names of tools are; blanks around a value and characters that are not shown are no part of it. What is
left, a person can tell apart, and so it is told apart here: "007" and "7", "1.1" and "1.10", "Ann" and
"ann" are two values each, unless `fold` says otherwise.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from .amounts import AmountError, read_amount, show

Fold: TypeAlias = Literal["case", "number"]

_UNSEEN = frozenset({"Cf", "Cc"})


def spelt(value: Any) -> Any:
    """Spell a value of plain data, or all that is in it. What is neither text nor number stays as it is."""
    if isinstance(value, str):
        return spelt_text(value)
    if isinstance(value, dict):
        return type(value)({name: spelt(part) for name, part in value.items()})
    if isinstance(value, list):
        return [spelt(part) for part in value]
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        try:
            return spelt_number(value)
        except AmountError:
            # It is no key either.
            return value
    return value


def spelt_text(text: str, fold: Fold | None = None) -> str:
    """Spell a text in the one way in which texts are compared."""
    if not (text.isascii() and text.isprintable()):
        text = _visible(text)
    text = text.strip()
    if fold == "number":
        return _by_value(text)
    if fold == "case":
        import unicodedata

        # Folding may take letters apart again.
        text = unicodedata.normalize("NFC", text.casefold())
    if text.endswith("0"):
        whole = _whole().fullmatch(text)
        text = text if whole is None else whole[1]
        return "0" if text == "-0" else text
    return text


def spelt_number(value: float | Decimal) -> str:
    """
    Spell a number in the one way in which numbers are compared.

    Raises:
        AmountError: It is not finite, or out of range.
    """
    amount = read_amount(value, negative=True)
    whole = int(amount)
    # 42.0 is 42. What is not whole has one spelling: 0.50 is 0.5.
    return str(whole) if whole == amount else show(amount).rstrip("0")


def _visible(text: str) -> str:
    import unicodedata

    left = text if text.isascii() else _not_shown().sub("", text)
    seen = "".join(c for c in left if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return unicodedata.normalize("NFC", seen)


def _by_value(text: str) -> str:
    import unicodedata

    # Tools read digits of every script: int("\u0661") is 1.
    digits = "".join(str(unicodedata.decimal(c, c)) for c in text)
    try:
        return spelt_number(read_amount(digits, text=True, negative=True))
    except AmountError:
        return text


# Compiled when they are needed: most texts need neither, and each hook is a process that starts.
@functools.cache
def _whole() -> re.Pattern[str]:
    return re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")


@functools.cache
def _not_shown() -> re.Pattern[str]:
    # Though their category is that of letters or marks: fillers, joiners, variation selectors.
    return re.compile(
        "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
    )
