"""
JSON in the one reading that all readers share.

A repeated key is one value to one reader and another to the next, and NaN is a number to few. What a contract
reads must be what the tool reads, so both are errors here.
"""

import json
import math
from typing import Any, NoReturn

__all__ = ("read_json",)


def read_json(text: str) -> Any:
    """
    Decode a JSON text.

    Raises:
        ValueError: It is no JSON, repeats a key, holds a number that is not finite, or is nested too
            deeply. The message says which, in words, and quotes no more than a name or a number.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unrepeated, parse_constant=_no_constant, parse_float=_finite
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"{name[:100]!r} is there twice")
            seen.add(name)
    return result


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:100]} is too large")
    return number
