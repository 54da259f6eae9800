"""
JSON by Python's own library, to the same bytes and values as by the fast one.

Both write JSON data alike but for numbers with an exponent. Those, and whatever is no JSON data, are left to
the fast library, which is loaded for it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable

from .codec import Codec, Marked, fast_codec, is_plain, use_codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn

_FROZEN: Final = frozenset((dict, list, tuple, Marked))
# As Python writes one. In a text it looks the same, and costs time only.
_EXPONENT: Final = r"[0-9]e[+-][0-9]"
_HALF_A_CHARACTER: Final = "\\ud"


def use_standard_library() -> None:
    """
    Encode and decode by Python's own library from here on.

    It takes several times as long, and is loaded already: for a process that ends before it has recorded more
    than a few lines.
    """
    use_codec(functools.partial(standard_codec, fast_codec))


@functools.cache
def standard_codec(fast: Callable[[], Codec]) -> Codec:
    """Make the functions of `Codec`; `fast` gives those that know everything."""
    plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    ordered = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
    ).encode
    decoder = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite).decode

    def encode(value: Any) -> bytes:
        return _encoded(value, plain) or fast().encode(value)

    def encode_sorted(value: Any) -> bytes:
        return _encoded(value, ordered) or fast().encode_sorted(value)

    def encoder_with(hook: Callable[[Any], Any]) -> Callable[[Any], bytes]:
        return lambda value: _encoded(value, ordered) or fast().encoder_with(hook)(value)

    def decode(data: bytes) -> Any:
        text = str(data, "utf-8")
        return fast().decode(data) if _HALF_A_CHARACTER in text.lower() else decoder(text)

    return Codec(encode=encode, encode_sorted=encode_sorted, encoder_with=encoder_with, decode=decode)


def _encoded(value: Any, write: Callable[[Any], str]) -> bytes | None:
    if not is_plain(value, containers=_FROZEN):
        return None
    text = write(value)
    return None if re.search(_EXPONENT, text) else text.encode()


def _finite(text: str) -> float:
    number = float(text)
    return number if number - number == 0 else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")
