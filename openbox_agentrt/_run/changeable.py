"""
What somebody may change in messages, which are frozen themselves.

A message holds data and the arguments of tool calls, and whoever made those still has them: the caller, a
provider, a tool that fills its own arguments. What was judged of a message is therefore remembered with what
the message said then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from .._plain.same import canonical

__all__ = ("is_settled", "saying")

_IMMUTABLE: Final = frozenset({str, bytes, int, float, bool, type(None)})
_ENCODER: Final = msgspec.json.Encoder(enc_hook=canonical)


def is_settled(message: Any) -> bool:
    """Tell whether a message stays as it is: nothing in it can be changed in place."""
    content, calls = message.content, message.tool_calls
    if calls or type(calls) is not tuple or type(content) is not tuple:
        return False
    # A loop, because every model call asks this of several messages.
    for part in content:  # noqa: SIM110
        if type(part.data) not in _IMMUTABLE:
            return False
    return True


def saying(messages: Iterable[Any]) -> bytes:
    """
    Write down all that messages say, to be compared later. Never raises.

    What is written of several messages begins with what is written of the first of them.
    """
    listed = tuple(messages)
    try:
        return _ENCODER.encode(listed)[1:-1]
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        # Keys that JSON has not, a cycle, a number or a depth beyond it.
        return b",".join(map(_saying_of_one, listed))


def _saying_of_one(message: Any) -> bytes:
    try:
        return _ENCODER.encode(message)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return canonical(message).encode("utf-8", "surrogatepass")
