"""
JSON in the one reading that all readers share.

A repeated key is one value to one reader and another to the next, and NaN is a number to few. What a contract
reads must be what the tool reads, so both are errors here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

from .._picklable import PicklableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Each hook is a process that starts with this module, and `typing` takes longer to load than it does.
    from typing import Any, Final, NoReturn, TypeAlias

    _Build: TypeAlias = Callable[[list[tuple[str, Any]]], Any]


_TOKEN: Final = r'"(?:[^"\\]|\\.)*+"|[][{}:,]|[^][{}:,"\s]+'


class JsonError(PicklableError, ValueError):
    """
    A text is no JSON that every reader would read alike. Nothing was decoded.

    Attributes:
        reason: What is wrong, in words; quotes no more than a name or a number.
        line: Line in which that is, counted from 1, or None where nobody can tell.
        repeated: Name that stands twice in one object, or None if that is not what is wrong.
    """

    def __init__(self, reason: str, *, line: int | None = None, repeated: str | None = None) -> None:
        self.reason = reason
        self.line = line
        self.repeated = repeated
        super().__init__(reason)


def read_json(text: str | bytes, *, finite: bool = True, build: _Build | None = None) -> Any:
    """
    Decode a JSON text.

    Args:
        text: The text; bytes are UTF-8, with or without a byte order mark.
        finite: Refuse NaN, infinities and numbers that are too large for a float.
        build: Makes an object of its pairs. Without one, a repeated key is an error.

    Raises:
        JsonError: It is no JSON, repeats a key, holds a number that is not finite, or is nested too deeply.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        if build is not None:
            return _decoder(build, finite=finite).decode(text)
        return (_FINITE if finite else _ANY).decode(text)
    except JsonError as error:
        raise JsonError(error.reason, line=_line_of(error, str(text)), repeated=error.repeated) from None
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg.lower()} in column {error.colno}", line=error.lineno) from error
    except RecursionError as error:
        raise JsonError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise JsonError("it is not UTF-8", line=error.object[: error.start].count(b"\n") + 1) from error
    except ValueError as error:
        # Thousands of digits, which Python refuses to read.
        raise JsonError("a number is too long") from error


def _decoder(build: _Build, *, finite: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=build,
        parse_constant=_no_constant if finite else None,
        parse_float=_finite if finite else None,
    )


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # By far the most objects are small, and there are many of them in a line.
    if len(pairs) == 1:
        ((name, value),) = pairs
        return {name: value}
    if len(pairs) == 2:
        (name, value), (other, its) = pairs
        if name != other:
            return {name: value, other: its}
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise JsonError(f"{name[:100]!r} is there twice", repeated=name)
            seen.add(name)
    return result


def _no_constant(text: str) -> NoReturn:
    raise JsonError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise JsonError(f"{text[:100]} is too large")
    return number


# Making one takes longer than decoding a line.
_FINITE = _decoder(_unrepeated, finite=True)
_ANY = _decoder(_unrepeated, finite=False)


def _line_of(error: JsonError, text: str) -> int | None:
    """Find where the parser stopped, which does not say so to those that it asks."""
    open_objects: list[set[str] | None] = []
    before = ""
    for token in re.finditer(_TOKEN, text, re.DOTALL):
        word = token[0]
        if word in ("{", "["):
            open_objects.append(set() if word == "{" else None)
        elif word in ("}", "]") and open_objects:
            open_objects.pop()
        names = open_objects[-1] if open_objects else None
        is_name = names is not None and before in ("{", ",") and word.startswith('"')
        if _is_at_fault(word, error, names if is_name else None):
            return text.count("\n", 0, token.start()) + 1
        before = word
    return None


def _is_at_fault(word: str, error: JsonError, names: set[str] | None) -> bool:
    if error.repeated is None:
        return error.reason.startswith(f"{word[:100]} is ")
    if names is None:
        return False
    name = str(json.loads(word))
    found = name == error.repeated and name in names
    names.add(name)
    return found
