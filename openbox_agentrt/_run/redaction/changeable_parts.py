"""
Find what somebody may change in messages, which are frozen themselves.

A message holds data and the arguments of tool calls, and whoever made those still has them: the caller, a
provider, a tool that fills its own arguments. What was judged of a message is therefore remembered with what
the message said then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..._plain.same import same_text

_IMMUTABLE: Final = frozenset({str, bytes, int, float, bool, type(None)})
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=same_text)


def changeable_in(message: Any) -> tuple[Any, ...]:
    """Give what somebody may change in a message; nothing for one that stays as it is."""
    content, calls = message.content, message.tool_calls
    if type(content) is not tuple or type(calls) is not tuple:
        return (message,)
    held = [call.arguments for call in calls] if calls else []
    for part in content:
        if part.data is not None and type(part.data) not in _IMMUTABLE:
            held.append(part.data)
    return tuple(held)


def saying(data: Sequence[Any]) -> bytes:
    """
    Write down what data says, to be compared later. Never raises.

    What is written of several things begins with what is written of the first of them.
    """
    try:
        # Without the head, which says how many there are.
        return _ENCODER.encode(data)[1 if len(data) < 16 else 3 if len(data) < 65_536 else 5 :]
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        # A cycle, a number or a depth beyond the encoder.
        return b"".join(map(_saying_of_one, data))


def _saying_of_one(item: Any) -> bytes:
    try:
        return _ENCODER.encode(item)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return _ENCODER.encode(same_text(item).encode("utf-8", "surrogatepass"))
