"""
Plain data, cut to a size.

What does not fit goes by its length, its SHA-256 and its beginning, in a mapping with the key ``$cut``. Small
parts stay whole before large ones: the amount and the customer of a call can be read even if a letter of two
megabytes stands beside them.
"""

from typing import Any, Final

from .codec import Marked, codec
from .digest import sha256, text_digest
from .walk import Json

# Objects in memory cost more than their JSON: about this much for each value and each name.
_NODE: Final = 40
# What a mark without a beginning weighs.
_MARK: Final = 300
_START: Final = 256
_LONGEST: Final = 1_000


def weight(value: Json) -> int:
    """Estimate the bytes that plain data takes in memory, which are never fewer than those of its JSON."""
    return _weight_of(codec().encode_sorted(value))


def bounded(value: Json, room: int) -> Json:
    """
    Cut plain data to a weight.

    Args:
        value: Plain data as `freeze` gives it.
        room: What it may weigh, see `weight`. What weighs less than the mark for it stays in any case.

    Returns:
        `value` itself if it fits. A mapping stays a mapping.
    """
    data = codec().encode_sorted(value)
    if _weight_of(data) <= room:
        return value
    if isinstance(value, str):
        return _lighter(value, _mark(value, value.encode(), len(value), room))
    parts: dict[Any, Json] = dict(value.items() if isinstance(value, dict) else _numbered(value))
    weights = {name: weight(part) for name, part in parts.items()}
    left = room - weight(dict.fromkeys(parts, 0) if isinstance(value, dict) else [0] * len(parts))
    if not parts or left < sum(min(each, _MARK) for each in weights.values()):
        return _lighter(value, _mark(data.decode(), data, len(data), room))
    for done, name in enumerate(sorted(parts, key=lambda name: weights[name])):
        parts[name] = bounded(parts[name], left // (len(parts) - done))
        left -= weight(parts[name])
    return type(value)(parts) if isinstance(value, dict) else list(parts.values())


def short_text(text: str) -> str:
    """Cut a text that has to stay one."""
    if len(text) <= _LONGEST:
        return text
    digest = text_digest(text)
    return f"{text[:_START]}[cut: {len(text)} characters, sha256 {digest}]"


def _numbered(value: Json) -> list[tuple[int, Json]]:
    return list(enumerate(value)) if isinstance(value, list) else []


def _weight_of(data: bytes) -> int:
    return len(data) + _NODE * (data.count(b",") + data.count(b":"))


def _lighter(value: Json, mark: Json) -> Json:
    return value if weight(value) <= weight(mark) else mark


def _mark(text: str, data: bytes, length: int, room: int) -> Json:
    mark = {"$cut": "size", "length": length, "sha256": sha256(data).hexdigest()}
    start = text[:_START]
    while start:
        whole = Marked({**mark, "start": start})
        if weight(whole) <= room:
            return whole
        start = start[: len(start) // 2]
    return Marked(mark)
