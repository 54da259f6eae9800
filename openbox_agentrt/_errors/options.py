"""Errors of configuration: an option that cannot be used as it was given."""

from __future__ import annotations

from openbox_core import errors as base
from openbox_core.errors import OpenBoxAuthError, OpenBoxConfigError

from .._picklable import PicklableError
from .message import one_line


class OptionError(PicklableError, OpenBoxConfigError):
    """
    An option cannot be used as it was given. Nothing was started and no network call was made.

    Attributes:
        option: Name of the option, as it was written.
        value: The value, unless the option holds a secret.
        problem: What is wrong with it.
        source: Environment variable that it came from; None for an argument.
        nearest: The known name or value that comes closest, if one does.
        remedy: What to write instead.
    """

    def __init__(
        self,
        option: str,
        problem: str,
        *,
        value: object = None,
        source: str | None = None,
        nearest: str | None = None,
        remedy: str | None = None,
    ) -> None:
        origin = "" if source is None else f" (from {source})"
        hint = "" if nearest is None else f"; did you mean {nearest!r}"
        # In the text as well: it is what a program that ends with this error shows.
        hint += "" if remedy is None else f"; {remedy}"
        Exception.__init__(self, one_line(f"option {option!r}{origin} {problem}{hint}"))
        self.option = option
        self.value = value
        self.problem = problem
        self.source = source
        self.nearest = nearest
        self.remedy = remedy


class InsecureURLError(OptionError, base.OpenBoxInsecureURLError):
    """`api_url` would send the API key over plain HTTP to another machine."""


class MalformedKeyError(OptionError, OpenBoxAuthError):
    """`api_key` does not have the form of an API key. The key itself is in neither message nor attributes."""
