"""
Values as keys: one customer has one budget, however the id is written.

How values are spelt is in `openbox_agentrt._plain.spelling`; evidence uses the same, so that a key that must
not be seen has one marker.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ..._plain.amounts import AmountError
from ..._plain.arguments import plain_value
from ..._plain.digest import text_digest
from ..._plain.spelling import Fold, spelt_number, spelt_text
from ..._plain.unseen import Unseen
from .paths import FieldError, UnreadableError

MAX_KEY = 128


def key_text(value: Any, name: str, *, fold: Fold | None = None) -> str:
    """
    Write a value as the key of an automaton. Long text is kept as its hash.

    Raises:
        FieldError: The value is missing, a boolean, not finite, or a container.
    """
    if isinstance(value, str):
        text = spelt_text(str.__str__(value), fold)
    elif isinstance(value, Unseen):
        raise UnreadableError(name, value)
    elif value is None or isinstance(value, bool):
        raise FieldError(f"{name} must be text or a number, got {value}")
    elif isinstance(value, (int, float, Decimal)):
        text = _number_text(value, name)
    else:
        return _of_object(value, name, fold)
    if len(text) > MAX_KEY:
        return "sha256:" + text_digest(text)
    return text


def _of_object(value: Any, name: str, fold: Fold | None) -> str:
    """Write an object as the data that contracts see of it, such as the text of a UUID."""
    seen = plain_value(value)
    if isinstance(seen, dict | list | tuple | bytes):
        raise FieldError(f"{name} must be text or a number, got {type(value).__name__}")
    return key_text(seen, name, fold=fold)


def _number_text(value: float | Decimal, name: str) -> str:
    try:
        return spelt_number(value)
    except AmountError as error:
        raise FieldError(f"{name} {error}") from None
