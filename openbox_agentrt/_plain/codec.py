"""
Values that are JSON data already: how to tell, and how to write them.

Nearly everything that is recorded is plain, so this is the way that has to be fast. Whatever is not
plain, or turns out not to be, goes the long way through `freezing`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .._values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A hook is a process for each call of a tool, and `typing` takes longer to load than this does.
    from typing import Any

# A call's arguments come from a model that may be hostile: what one record can cost is bounded. A node
# costs one, and long text one more for every 64 characters.
MAX_DEPTH = 64
MAX_SIZE = 100_000

CONTAINERS = frozenset((dict, list, tuple))
TAGS = frozenset(
    (
        "$bytes",
        "$cut",
        "$cycle",
        "$decimal",
        "$error",
        "$float",
        "$int",
        "$mapping",
        "$object",
        "$set",
        "$text",
        "$unseen",
    )
)
"""Names that stand for what JSON cannot hold."""


class Marked(dict[str, "Any"]):
    """
    Stand for what JSON cannot hold, under one of those names.

    A class of its own, so that what is frozen already is told from a caller's mapping that has such a name.
    """

    __slots__ = ()


_SCALARS = frozenset((str, int, bool, type(None)))
# Below this, no text has to be cut.
_SMALL = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """
    Hold the functions of the JSON library.

    `encoder_with` makes a function that encodes in an order that chance does not decide, and asks another
    function for what JSON does not have.
    """

    encode: Callable[[Any], bytes]
    encode_sorted: Callable[[Any], bytes]
    encoder_with: Callable[[Callable[[Any], Any]], Callable[[Any], bytes]]
    decode: Callable[[bytes], Any]


def codec() -> Codec:
    """Give the JSON library, loaded late: a process that records nothing does not need it."""
    return _chosen()


def use_codec(choice: Callable[[], Codec]) -> None:
    """Let `codec` give another library from here on, which gives the same bytes and values."""
    global _chosen
    _chosen = choice


@functools.cache
def fast_codec() -> Codec:
    """Load the library that is fast once it is loaded."""
    import msgspec

    return Codec(
        encode=msgspec.json.Encoder().encode,
        encode_sorted=msgspec.json.Encoder(order="sorted").encode,
        encoder_with=lambda hook: msgspec.json.Encoder(order="deterministic", enc_hook=hook).encode,
        decode=msgspec.json.Decoder().decode,
    )


_chosen: Callable[[], Codec] = fast_codec


def plain_json(value: object, encode: Callable[[Any], bytes], *, check_names: bool = True) -> bytes | None:
    """Write a value as JSON, or give None if it is not plain."""
    if not is_plain(value, check_names=check_names):
        return None
    try:
        data = encode(value)
    except (UnicodeEncodeError, RuntimeError, TypeError, ValueError):
        # Text that is not Unicode, a number without end, or a change by another thread meanwhile.
        return None
    # One byte is found much faster than two, and is hardly ever there.
    marked = b"$" in data and b'"$' in data
    return data if len(data) <= _SMALL and not marked else None


def is_plain(value: object, *, check_names: bool = True, containers: frozenset[type] = CONTAINERS) -> bool:
    """
    Say whether a value freezes to itself, but for text, which is not looked at.

    Calls no method of the value and of what is in it.

    Args:
        value: Any value.
        check_names: Look at the names in mappings too.
        containers: Types that are looked into.
    """
    room = MAX_SIZE
    level: list[Any] = [(value,)]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for part in level:
            items = part
            if isinstance(part, dict):
                if check_names:
                    for name in part:
                        if type(name) is not str:
                            return False
                items = part.values()
            room -= len(items)
            if room < 0:
                return False
            for item in items:
                kind = type(item)
                if kind in _SCALARS:
                    continue
                if kind in containers:
                    below.append(item)
                elif kind is not float or item - item != 0:
                    return False
        if not below:
            return True
        level = below
    # Too deep, or a container inside itself.
    return False
