"""
Core's ``redacted_input``, put in the place of what was sent.

It arrives in many shapes: text, a list that mirrors ``activity_input``, one of its elements, the same
inside ``{"activity_input": ...}``, as JSON text, or as an object that holds only what changed.
`fit_redaction` lays it over the original and gives a copy in which everything else is the original's own
objects. Its one rule for what is left over: a shape that does not fit refuses the call. Sending the raw
text instead is never an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from .._plain.walk import Json
from ..decision import MISSING
from ..errors import GovernanceUnavailableError
from .payloads import DEFAULT_MAX_BYTES, shown

WRAPPERS: Final = ("input", "activity_input", "output", "activity_output", "result")
SENTINEL: Final = "__openbox"
_MAX_WRAPPING: Final = 8


class _NoFitError(Exception):
    """This reading of the shape does not fit; another one may."""


def fit_redaction(original: list[Any], redacted: object, *, max_bytes: int = DEFAULT_MAX_BYTES) -> list[Any]:
    """
    `original` with `redacted` laid over it.

    Args:
        original: What was sent as ``activity_input``, without the sentinel. It is not changed.
        redacted: ``redacted_input`` of the answer.
        max_bytes: The cap under which `original` was sent.

    Returns:
        `original` itself when nothing is redacted, else a new list.

    Raises:
        GovernanceUnavailableError: The redaction does not fit, or changes an input of which Core saw only a
            part.
    """
    if redacted is MISSING or redacted is None:
        return original
    wire, is_whole = shown(original, max_bytes=max_bytes)
    try:
        result = _root(original, wire, redacted, 0)
    except _NoFitError:
        raise unfit_redaction("core's redaction does not fit the input") from None
    if result is not original and not is_whole:
        raise unfit_redaction("core's redaction is of an input that it saw only in part")
    return result


def unfit_redaction(reason: str) -> GovernanceUnavailableError:
    """Give the error for a redaction that cannot be laid over what it is of."""
    return GovernanceUnavailableError(reason, kind="unreadable")


def _root(original: list[Any], wire: list[Json], redacted: object, wrapping: int) -> list[Any]:
    if wrapping > _MAX_WRAPPING:
        raise _NoFitError
    match redacted:
        case None:
            return original
        case str():
            return _text_onto(original, wire, redacted, wrapping)
        case list():
            items = _without_sentinel(redacted)
            if len(items) == len(original):
                try:
                    return _items(original, wire, items, wrapping)
                except _NoFitError:
                    if len(original) != 1:
                        raise
            if len(original) != 1:
                raise _NoFitError
            return _one(original, _element(original[0], wire[0], items, wrapping))
        case dict():
            if len(original) == 1:
                try:
                    return _one(original, _element(original[0], wire[0], redacted, wrapping))
                except _NoFitError:
                    pass  # it may be a wrapper all the same
            return _root(original, wire, _unwrapped(redacted), wrapping + 1)
    raise _NoFitError


def _one(original: list[Any], item: object) -> list[Any]:
    return original if item is original[0] else [item]


def _items(original: list[Any], wire: list[Json], redacted: list[Any], wrapping: int) -> list[Any]:
    items = [_element(*three, wrapping) for three in zip(original, wire, redacted, strict=True)]
    return original if all(new is old for new, old in zip(items, original, strict=True)) else items


def _element(original: Any, wire: Json, redacted: object, wrapping: int) -> Any:
    """
    Put what was redacted of one argument onto it.

    Text may stand for an object with a single text in it; null says that nothing was redacted.
    """
    match redacted:
        case None:
            return original
        case str() if isinstance(wire, dict | list):
            return _text_onto([original], [wire], redacted, wrapping)[0]
        case list() if not isinstance(wire, list):
            items = _without_sentinel(redacted)
            if len(items) != 1:
                raise _NoFitError
            return _element(original, wire, items[0], wrapping)
        case bool() | int() | float() if isinstance(wire, dict | list):
            raise _NoFitError
    return _merge(original, wire, redacted)


def _merge(original: Any, wire: Json, redacted: object) -> Any:
    match redacted:
        case dict() if isinstance(wire, dict):
            return _merge_object(
                original, wire, {k: v for k, v in redacted.items() if k != SENTINEL or k in wire}
            )
        case list() if isinstance(wire, list):
            return _merge_list(original, wire, redacted)
        case dict() | list():
            raise _NoFitError
    # Text or null may take the place of anything: the whole value was redacted.
    return original if _same(wire, redacted) else redacted


def _merge_object(original: Any, wire: dict[str, Json], redacted: dict[str, Any]) -> Any:
    if not redacted.keys() <= wire.keys():
        raise _NoFitError  # a redaction takes away, it does not add arguments
    if not isinstance(original, Mapping) or len(original) != len(wire):
        # Something that is no mapping, such as a model: only its plain form can be changed.
        merged = {key: _merge(old, old, redacted.get(key, old)) for key, old in wire.items()}
        return original if all(merged[key] is wire[key] for key in wire) else merged
    merged = dict(original)
    changed = False
    for key, name in zip(original, wire, strict=True):
        if name in redacted:
            merged[key] = _merge(original[key], wire[name], redacted[name])
            changed = changed or merged[key] is not original[key]
    return merged if changed else original


def _merge_list(original: Any, wire: list[Json], redacted: list[Any]) -> Any:
    if len(redacted) != len(wire):
        raise _NoFitError
    own = original if isinstance(original, list | tuple) and len(original) == len(wire) else wire
    items = [_merge(*three) for three in zip(own, wire, redacted, strict=True)]
    if all(new is old for new, old in zip(items, own, strict=True)):
        return original
    return tuple(items) if type(original) is tuple else items


def _same(wire: Json, redacted: object) -> bool:
    if isinstance(wire, bool) or isinstance(redacted, bool):
        return wire is redacted
    if isinstance(wire, int | float) and isinstance(redacted, int | float):
        # Core's decoder reads every number as a 64-bit float.
        return float(wire) == float(redacted)
    return wire == redacted


def _text_onto(original: list[Any], wire: list[Json], text: str, wrapping: int) -> list[Any]:
    """Text for something that holds exactly one text, or JSON text of another shape."""
    texts = _texts(wire)
    decoded = _decoded(text)
    if decoded is not None and not (len(texts) == 1 and _decoded(texts[0]) is not None):
        try:
            return _root(original, wire, decoded, wrapping + 1)
        except _NoFitError:
            pass  # then it is text that merely looks like JSON
    if len(texts) != 1:
        raise _NoFitError
    merged = [_merge(*three) for three in zip(original, wire, _with_text(wire, text), strict=True)]
    return original if all(new is old for new, old in zip(merged, original, strict=True)) else merged


def _decoded(text: str) -> object:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _texts(wire: Json) -> list[str]:
    match wire:
        case str():
            return [wire]
        case dict():
            return [text for item in wire.values() for text in _texts(item)]
        case list():
            return [text for item in wire for text in _texts(item)]
    return []


def _with_text(wire: Any, text: str) -> Any:
    match wire:
        case str():
            return text
        case dict():
            return {key: _with_text(item, text) for key, item in wire.items()}
        case list():
            return [_with_text(item, text) for item in wire]
    return wire


def _without_sentinel(items: list[Any]) -> list[Any]:
    while items and isinstance(items[-1], dict) and items[-1].keys() == {SENTINEL}:
        items = items[:-1]
    return items


def _unwrapped(redacted: dict[str, Any]) -> object:
    inside = [key for key in redacted if key != SENTINEL]
    if len(inside) != 1 or inside[0] not in WRAPPERS:
        raise _NoFitError
    return redacted[inside[0]]
