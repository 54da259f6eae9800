"""Amounts as whole units, which every store adds exactly."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow

from .errors import UnitsError

LARGEST = 2**53 - 1
"""Up to here, a double holds every whole number. Lua has no others."""

MIN_SCALE = 2

_EXACT = Context(prec=400, Emax=999_999, Emin=-999_999, traps=[Inexact, InvalidOperation, Overflow])


def scale_of(limit: Decimal) -> int:
    """Give the decimals with which amounts under a limit are counted: the limit's own, and two at least."""
    exponent = limit.as_tuple().exponent
    return max(MIN_SCALE, -exponent if isinstance(exponent, int) else 0)


def to_units(amount: Decimal | int, scale: int) -> int:
    """
    Give an amount in units of ten to the power of minus `scale`.

    Raises:
        UnitsError: It has more decimals than that, or is beyond `LARGEST` units.
    """
    try:
        units = Decimal(amount).scaleb(scale, context=_EXACT)
        whole = int(units) if units.is_finite() and abs(units) <= LARGEST else None
    except ArithmeticError as error:
        raise UnitsError(f"amount {str(amount)!r} is too large to be counted exactly") from error
    if whole is None:
        raise UnitsError(f"amount {str(amount)!r} is too large to be counted exactly")
    if whole != units:
        raise UnitsError(f"amount {str(amount)!r} has more than {scale} decimals, which are what is counted")
    return whole


def from_units(units: int, scale: int) -> Decimal:
    """Give the amount that `units` stand for, with no zeros at its end."""
    amount = Decimal(units).scaleb(-scale, context=_EXACT)
    whole = amount.to_integral_value()
    return whole if amount == whole else amount.normalize(_EXACT)
