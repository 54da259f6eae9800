"""The parameters of each template, read off the templates themselves."""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

from ..._values import dataclass
from .options import Options
from .registry import CLASSES
from .shapes import Kind

ParameterKind: TypeAlias = Kind | Literal["tool", "source", "sources"]

OPTIONS = tuple(sorted(name.removesuffix("_") for name in Options.__annotations__ if name != "facts"))
"""The options that every template takes, by their names in data. Facts stand beside the contracts there."""

_KINDS: dict[str, ParameterKind] = {
    "ToolMatcher": "tool",
    "ToolMatcher | None": "tool",
    "str": "text",
    "int": "count",
    "float": "number",
    "Any": "number",
    "bool": "flag",
    "Scalar": "scalar",
    "Match": "text",
    "SourceGiven": "source",
    "Sequence[SourceGiven]": "sources",
}
# A function cannot stand in a file.
_NOT_IN_FILES = frozenset({"clock"})
# The published name of a parameter whose own would clash with an option of every template.
_ALIASES = {("requires_state", "state_key"): "key"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """
    One parameter of a template.

    Attributes:
        name: Its name in the template's function.
        alias: The name that it may also have in a rules file, or None.
        kind: What it takes.
        required: Whether it has to be given.
        positional: Whether it may be given by position.
    """

    name: str
    alias: str | None
    kind: ParameterKind
    required: bool
    positional: bool


# The one option that the published signature of a template has by position.
_WITHIN = Parameter(name="within", alias=None, kind="number", required=False, positional=True)


@functools.cache
def parameters_of(template: str) -> tuple[Parameter, ...]:
    """Read the parameters of a template of the registry, without the options that every template takes."""
    # Read off the function: loading `inspect` takes milliseconds, and a hook is a process for each call.
    function: Any = CLASSES[template].__init__
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    by_position = names[: code.co_argcount - 1]
    defaults = function.__defaults__ or ()
    optional = {*by_position[len(by_position) - len(defaults) :], *(function.__kwdefaults__ or ())}
    own = tuple(
        Parameter(
            name=name,
            alias=_ALIASES.get((template, name)),
            kind=_KINDS[function.__annotations__[name]],
            required=name not in optional,
            positional=name in by_position,
        )
        for name in names
        if name not in _NOT_IN_FILES
    )
    return (*own, _WITHIN) if template == "response" else own
