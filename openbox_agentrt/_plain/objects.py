"""Look at objects without asking them: their type says what they are made of."""

import functools
from collections.abc import Iterable
from typing import Any


def name_of(kind: type) -> str:
    """Give the full name of a type, in ASCII."""
    try:
        return _ascii(f"{kind.__module__:s}.{kind.__qualname__:s}")
    except Exception:  # noqa: BLE001
        # A metaclass can make even this raise, and a name is not worth losing a record for.
        return "?"


def error_name(error: Exception) -> str:
    """Give the name of an error's type, in ASCII. Its text may hold the data that was being looked at."""
    return _ascii(type.__dict__["__name__"].__get__(type(error)))


def _ascii(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode()


@functools.cache
def scalars() -> tuple[type, ...]:
    """Give the types whose text is their value. Imported here, because few processes need them all."""
    import datetime
    import decimal
    import fractions
    import pathlib
    import uuid

    return (
        datetime.date,
        datetime.time,
        datetime.timedelta,
        decimal.Decimal,
        fractions.Fraction,
        pathlib.PurePath,
        uuid.UUID,
    )


def text_is_value(kind: type) -> bool:
    """Say whether a value of this type is wholly told by its text: those above, addresses and URLs."""
    return issubclass(kind, scalars()) or any(name_of(base) in _TEXT_IS_VALUE for base in kind.__mro__)


# By name: whoever has one of these has loaded its module, and nobody else needs it.
_TEXT_IS_VALUE = frozenset(
    ("ipaddress._IPAddressBase", "pydantic.networks._BaseUrl", "pydantic_core._pydantic_core.Url")
)


def fields_of(value: object, kind: type) -> list[tuple[str, Any]] | None:
    """
    Give the fields of a dataclass, a msgspec or attrs class or a pydantic model, or None for anything else.

    They are read one by one. `dataclasses.asdict` would copy them deeply, which a lock does not survive.
    """
    names: Iterable[str] | None = None
    for attribute in ("__dataclass_fields__", "__struct_fields__", "__pydantic_fields__"):
        names = getattr(kind, attribute, None)
        if names is not None:
            break
    else:
        attrs = getattr(kind, "__attrs_attrs__", None)
        names = None if attrs is None else [attribute.name for attribute in attrs]
    if names is None:
        return None
    pairs = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    extra = getattr(value, "__pydantic_extra__", None)
    return pairs + list(extra.items()) if extra else pairs
