"""
Amounts that add up exactly.

Money is not a float: three times 0.1 is 0.3 here. An integer stays an integer; a float counts as
its shortest decimal form, which is the number that was written; a `Decimal` counts as it is.
Whatever cannot be read as a finite number of sane size is an error and never zero: an engine that
cannot read a number does not let the money through.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Any

Amount = int | Decimal

# Digits before and after the point. A float has at most 309 and 324.
MAX_DIGITS = 400
BIGGEST = 10**MAX_DIGITS
# Room for any sum of such amounts. Inexact raises, so no sum is ever rounded.
_EXACT = decimal.Context(prec=4 * MAX_DIGITS, Emax=10**6, Emin=-(10**6), traps=[decimal.Inexact])


class AmountError(ValueError):
    """A value is no amount. It says why, and not what the value was."""


def read_amount(value: Any, *, text: bool = False, negative: bool = False) -> Amount:
    """
    Read a value as an exact amount.

    Args:
        value: What an argument holds.
        text: Whether text such as ``"12.50"`` is read as a number.
        negative: Whether amounts below zero are allowed.

    Raises:
        AmountError: It is missing, not a number, not finite, out of range, or below zero.
    """
    if type(value) is int and 0 <= value < BIGGEST:
        return value
    amount = _read(value, text)
    if amount < 0 and not negative:
        raise AmountError("is negative")
    return amount


def add(a: Amount, b: Amount) -> Amount:
    """Add two amounts exactly."""
    if type(a) is int and type(b) is int:
        return a + b
    return _EXACT.add(Decimal(a), Decimal(b))


def subtract(a: Amount, b: Amount) -> Amount:
    """Subtract one amount from another exactly."""
    if type(a) is int and type(b) is int:
        return a - b
    return _EXACT.subtract(Decimal(a), Decimal(b))


def show(amount: Amount) -> str:
    """Write an amount as text, without an exponent: ``120.00``."""
    return str(amount) if type(amount) is int else format(amount, "f")


def _read(value: Any, text: bool) -> Amount:
    if isinstance(value, bool):
        raise AmountError("is a boolean")
    if isinstance(value, int):
        # int() of a subclass may run its own code; __index__ of int itself does not.
        whole = int.__index__(value)
        if abs(whole) >= BIGGEST:
            raise AmountError("is out of range")
        return whole
    if isinstance(value, float):
        return _decimal(float.__repr__(value))
    if isinstance(value, Decimal):
        return _checked(Decimal(value))
    if text and isinstance(value, str):
        if len(value) > 4 * MAX_DIGITS:
            raise AmountError("is out of range")
        return _decimal(value.strip())
    raise AmountError("is missing" if value is None else "is not a number")


def _decimal(written: str) -> Decimal:
    # Decimal() reads digits of every script and underscores between them; an amount has neither.
    if not written.isascii() or "_" in written:
        raise AmountError("is not a number")
    try:
        return _checked(Decimal(written))
    except decimal.InvalidOperation:
        raise AmountError("is not a number") from None


def _checked(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise AmountError("is not finite")
    exponent = value.as_tuple().exponent
    if abs(value.adjusted()) >= MAX_DIGITS or abs(int(exponent)) > 2 * MAX_DIGITS:
        raise AmountError("is out of range")
    return value
