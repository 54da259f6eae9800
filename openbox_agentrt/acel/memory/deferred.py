"""Amounts that are measured only once a call has run, and what each is taken for until then."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..._plain.amounts import Amount, AmountError, read_amount
from ..._values import dataclass
from ..wording import shown


@dataclass(frozen=True, slots=True)
class Guess:
    """
    Hold what an amount is taken for by somebody who cannot know, such as the most that a model may say.

    It keeps calls side by side from passing a limit together; one that is alone is let through while anything
    is left.
    """

    amount: Amount


def read_estimate(value: object) -> Amount:
    """
    Accept what an amount that is measured later is taken for until then.

    Raises:
        ValueError: It is no amount.
    """
    try:
        return read_amount(value)
    except AmountError as error:
        raise ValueError(f"estimate {error}, got {shown(value)}") from None


def read_deferred(fields: Collection[str] | Mapping[str, Any]) -> Collection[str]:
    """
    Accept the fields that are measured later, with what each is taken for if that is said.

    A guess may be written ``{"guess": amount}``, as it stands in evidence.

    Raises:
        ValueError: What one is taken for is no amount.
    """
    # One name given as text is one name, not its letters.
    if isinstance(fields, str):
        return (fields,)
    if isinstance(fields, Mapping):
        return {name: _taken_for(value) for name, value in fields.items()}
    return frozenset(fields)


def _taken_for(value: Any) -> Amount | Guess | None:
    match value:
        case None:
            return None
        case Guess(amount) | {"guess": amount}:
            return Guess(read_estimate(amount))
    return read_estimate(value)
