"""
Bytes that are the same for the same values.

Two encodings, one per format. Format 1's is the published one and is recomputed on verification. Format 2's
is hashed as it stands in the file, so no later version of an encoder can make an old log look changed.
"""

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

from .freezing import Concealer, Json, freeze, is_plain

__all__ = ("GENESIS_HASH", "canonical", "decoded", "encoded", "legacy_canonical", "sha256_hex")

GENESIS_HASH = "0" * 64
"""What the first entry of a log links to."""

# Above this, text may have to be cut.
_SMALL = 1 << 20


def sha256_hex(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def legacy_canonical(payload: object) -> bytes:
    """Format 1: sorted keys, no spaces, ASCII. What JSON cannot hold is written as its text."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), default=str).encode()


def canonical(value: object, concealer: Concealer | None = None) -> bytes:
    """
    Format 2: the frozen value with sorted keys, without spaces, in UTF-8.

    Args:
        value: Any value; see `freeze` for what becomes of it.
        concealer: What must not be recorded as it is.
    """
    encode, _ = _codec()
    if concealer is None and is_plain(value):
        # The common case is JSON data already, and telling costs less than copying it.
        try:
            data = encode(value)
        except (UnicodeEncodeError, RuntimeError, TypeError, ValueError):
            # Text that is not Unicode, a name that is no text, or a change by another thread meanwhile.
            data = b""
        if 0 < len(data) <= _SMALL and b'"$' not in data:
            return data
    return encode(freeze(value, concealer))


def encoded(frozen: Json) -> bytes:
    """Format 2, of what is frozen already."""
    return _codec()[0](frozen)


def decoded(data: bytes) -> Any:
    """
    JSON data, strictly: UTF-8, no numbers that are none, no lone surrogates.

    Raises:
        ValueError: If it is anything else, or nested too deeply.
    """
    _, decode = _codec()
    try:
        return decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


@functools.cache
def _codec() -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    # Imported late: a process that records nothing does not need it.
    import msgspec

    return msgspec.json.Encoder(order="sorted").encode, msgspec.json.Decoder().decode
