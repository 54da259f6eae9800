"""The base of all errors of this package: one-line messages, and surviving pickling."""

from __future__ import annotations

from typing import Any

MESSAGE_LIMIT = 500
"""Characters of a message; attributes keep all of it."""


def one_line(text: str) -> str:
    """Write `text` without line breaks and runs of blanks, cut at `MESSAGE_LIMIT`."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]}..."


def _rebuild(cls: type[BaseException], args: tuple[object, ...], state: dict[str, Any]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class PicklableError(Exception):
    """Keep the attributes of an error through pickling, whatever its constructor looks like."""

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by the default, and errors cross process
        # boundaries in durable agent loops.
        return _rebuild, (type(self), self.args, dict(self.__dict__))
