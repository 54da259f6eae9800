"""
Bytes that are the same for the same values.

Two encodings, one per format. Format 1's is the published one and is recomputed on verification. Format 2's
is hashed as it stands in the file, so no later version of an encoder can make an old log look changed.
"""

import json
from typing import Any

from .._plain.codec import codec, plain_json
from .._plain.digest import sha256
from .._plain.freezing import freeze
from .._plain.walk import Json

GENESIS_HASH = "0" * 64
"""What the first entry of a log links to."""


def sha256_hex(data: bytes) -> str:
    """Give the SHA-256 of data in hexadecimal."""
    digest: str = sha256(data).hexdigest()
    return digest


def legacy_canonical(payload: object) -> bytes:
    """Encode for format 1: sorted keys, no spaces, ASCII. What JSON cannot hold is written as its text."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), default=str).encode()


def canonical(value: object) -> bytes:
    """Encode for format 2: the frozen value with sorted keys, without spaces, in UTF-8."""
    # The common case is JSON data already, and telling costs less than copying it. The encoder that sorts
    # refuses names that are no text by itself.
    data = plain_json(value, encode, check_names=False)
    return encode(freeze(value)) if data is None else data


def encode(frozen: Json) -> bytes:
    """Encode what is frozen already for format 2."""
    return codec().encode_sorted(frozen)


def decoded(data: bytes) -> Any:
    """
    Decode JSON data strictly: UTF-8, no numbers that are none, no lone surrogates.

    Raises:
        ValueError: If it is anything else, or nested too deeply.
    """
    try:
        return codec().decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
