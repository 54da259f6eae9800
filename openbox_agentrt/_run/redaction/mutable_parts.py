"""
Find the parts of messages that somebody may change, since only the messages themselves are frozen.

A message holds data and the arguments of tool calls, and whoever made those still has them: the caller, a
provider, a tool that fills its own arguments. What was judged of a message is therefore remembered with the
serialized form of these parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..._plain.same import same_text

_IMMUTABLE: Final = frozenset({str, bytes, int, float, bool, type(None)})
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=same_text)


def mutable_parts(message: Any) -> tuple[Any, ...]:
    """Give what somebody may change in a message; nothing for one that stays as it is."""
    content, calls = message.content, message.tool_calls
    if type(content) is not tuple or type(calls) is not tuple:
        return (message,)
    held = [call.arguments for call in calls] if calls else []
    for part in content:
        if part.data is not None and type(part.data) not in _IMMUTABLE:
            held.append(part.data)
    return tuple(held)


def serialized(parts: Sequence[Any]) -> bytes:
    """
    Serialize parts, to be compared with what they are later. Never raises.

    The form of several begins with that of the first of them.
    """
    try:
        # Without the head, which says how many there are.
        return _ENCODER.encode(parts)[1 if len(parts) < 16 else 3 if len(parts) < 65_536 else 5 :]
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        # A cycle, a number or a depth beyond the encoder.
        return b"".join(map(_serialized_one, parts))


def _serialized_one(part: Any) -> bytes:
    try:
        return _ENCODER.encode(part)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return _ENCODER.encode(same_text(part).encode("utf-8", "surrogatepass"))
