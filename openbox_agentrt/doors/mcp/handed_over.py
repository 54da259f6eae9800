"""
Values that were judged, given to the server that would make its own of the same arguments.

A typed server of the SDK validates the arguments of a call and passes what comes of it to the function. To
judge that, the gate validates them first. A validator that gives another value each time would give the
function another one than was judged, so what the gate has is what the server's own validation gives, for
that call and once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..._plain.same import is_same

_ORIGINAL = "_openbox_original"


class JudgedValues:
    """
    Hold what the validation of a tool made of the arguments of one call.

    Args:
        metadata: What the server knows of the arguments of the tool.
        sent: The arguments as the client sent them.

    Attributes:
        values: The arguments of the function.

    Raises:
        Exception: Whatever the validation raises.
    """

    __slots__ = ("_is_given", "_metadata", "_sent", "values")

    def __init__(self, metadata: Any, sent: Mapping[str, Any]) -> None:
        validate = metadata.validate_arguments
        self.values: dict[str, Any] = getattr(validate, _ORIGINAL, validate)(sent)
        self._metadata = metadata
        self._sent = sent
        self._is_given = False

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Let the server's validation give these values, where it is asked about the same arguments."""
        _let_give(self._metadata)
        token = _JUDGED.set(self)
        try:
            yield
        finally:
            _JUDGED.reset(token)

    def take(self, metadata: Any, sent: Any) -> bool:
        """Tell whether the values are what is asked for. They are given once."""
        if self._is_given or metadata is not self._metadata or not is_same(sent, self._sent):
            # Another tool, a call within the call, or arguments that something behind the gate has changed.
            return False
        self._is_given = True
        return True


_JUDGED: ContextVar[JudgedValues | None] = ContextVar("openbox_agentrt_mcp_judged", default=None)


def _let_give(metadata: Any) -> None:
    """Have a tool's own validation asked after what was judged. The SDK has no public way to that."""
    original = metadata.validate_arguments
    if hasattr(original, _ORIGINAL):
        return

    @functools.wraps(original)
    def validate_arguments(sent: dict[str, Any]) -> dict[str, Any]:
        judged = _JUDGED.get()
        if judged is not None and judged.take(metadata, sent):
            return judged.values
        validated: dict[str, Any] = original(sent)
        return validated

    setattr(validate_arguments, _ORIGINAL, original)
    # Not by setattr(): the model has no such field, and only one instance of it is meant.
    object.__setattr__(metadata, "validate_arguments", validate_arguments)
