"""Contracts, built from a rules file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..contracts.registry import TEMPLATES, build_contract
from ..contracts.template import Template
from .document import Document
from .errors import ConfigError
from .parameters import OPTIONS, Parameter, ParameterKind, parameters_of
from .positions import Place, written
from .shapes import AnyOfShape, ContractShape, MatcherShape, shaped

__all__ = ("build", "tools_in")

_MAX_NESTED_MATCHERS = 8


def build(data: Any, document: Document, place: Place) -> Template:
    """
    The contract that stands at a place.

    Raises:
        ConfigError: If it is none.
    """
    if not isinstance(data, dict):
        raise _error(f"must be a mapping, got {_kind(data)}", document, place)
    shape = shaped(data, ContractShape, document, place)
    if shape.template not in TEMPLATES:
        from difflib import get_close_matches

        near = get_close_matches(shape.template, TEMPLATES, n=1)
        expected = f"did you mean {near[0]}" if near else f"expected one of {', '.join(sorted(TEMPLATES))}"
        problem = f"unknown template {shape.template!r:.80}, {expected}"
        raise _error(problem, document, (*place, "template"))
    given = _arguments(shape, document, place)
    try:
        return build_contract({"template": shape.template, "kwargs": given})
    except (TypeError, ValueError) as error:
        raise _error(" ".join(str(error).split()), document, place) from error


def tools_in(data: Any) -> Iterator[tuple[str, str]]:
    """The names of tools in a contract of the right shape, each with the parameter that it stands for."""
    parameters = parameters_of(data["template"])
    positional = zip(parameters, data.get("args", []), strict=False)
    by_name = {parameter.name: parameter for parameter in parameters}
    named = ((by_name[name], value) for name, value in data.get("kwargs", {}).items() if name in by_name)
    for parameter, value in (*positional, *named):
        if parameter.kind == "tool":
            yield from ((parameter.name, name) for name in _names_in(value))


def _names_in(matcher: Any) -> Iterator[str]:
    if isinstance(matcher, str):
        yield matcher
    elif "any_of" in matcher:
        for one in matcher["any_of"]:
            yield from _names_in(one)
    else:
        yield matcher["tool"]


def _arguments(shape: ContractShape, document: Document, place: Place) -> dict[str, Any]:
    """Everything that is given for a template, by name, each thing once."""
    parameters = parameters_of(shape.template)
    positional = [parameter for parameter in parameters if parameter.positional]
    if len(shape.args) > len(positional):
        problem = f"{shape.template} takes at most {len(positional)} arguments, got {len(shape.args)}"
        raise _error(problem, document, (*place, "args"))
    given: dict[str, Any] = {}
    for index, value in enumerate(shape.args):
        _check(value, positional[index], document, (*place, "args", index))
        given[positional[index].name] = value
    known = {parameter.name: parameter for parameter in parameters}
    for parameter in parameters:
        # Once a parameter is there under its own name, its alias is the option that every template has.
        if parameter.alias is not None and parameter.name not in given.keys() | shape.kwargs.keys():
            known[parameter.alias] = parameter
    for name, value in shape.kwargs.items():
        here = (*place, "kwargs", name)
        if name in known:
            _check(value, known[name], document, here)
        elif name not in OPTIONS:
            takes = ", ".join(parameter.alias or parameter.name for parameter in parameters)
            raise _error(f"{shape.template} has no argument {name!r:.80}, it takes {takes}", document, here)
        _give(given, known[name].name if name in known else name, value, document, here)
    for name, value in shape.options().items():
        _give(given, name, value, document, (*place, name))
    for parameter in parameters:
        if parameter.required and parameter.name not in given:
            name = parameter.alias or parameter.name
            raise _error(f"{shape.template} needs {name!r}", document, place)
    return given


def _give(given: dict[str, Any], name: str, value: Any, document: Document, place: Place) -> None:
    if name in given:
        raise _error(f"{name!r} is given twice", document, place)
    given[name] = value


def _check(value: Any, parameter: Parameter, document: Document, place: Place) -> None:
    if parameter.kind == "tool":
        _check_matcher(value, document, place, 0)
    elif not _FITS[parameter.kind](value):
        problem = f"must be {_WANTED[parameter.kind]}, got {_kind(value)}"
        raise _error(problem, document, place)


def _check_matcher(value: Any, document: Document, place: Place, depth: int) -> None:
    if isinstance(value, str):
        if not value:
            raise _error("a tool must be named, got ''", document, place)
        return
    if not isinstance(value, dict):
        raise _error(f"must be the name of a tool or a matcher, got {_kind(value)}", document, place)
    if "any_of" not in value:
        if not {"tool", "matches"} <= value.keys():
            # As acel-core writes it.
            keys = sorted(value)
            problem = f"a matcher must have 'tool' and 'matches' (optionally 'field'), got {keys!r:.80}"
            raise _error(problem, document, place)
        shaped(value, MatcherShape, document, place)
        return
    if depth >= _MAX_NESTED_MATCHERS:
        raise _error("any_of is nested too deeply", document, place)
    for index, one in enumerate(shaped(value, AnyOfShape, document, place).any_of):
        _check_matcher(one, document, (*place, "any_of", index), depth + 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FITS: dict[ParameterKind, Any] = {
    "text": lambda value: isinstance(value, str),
    "count": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "flag": lambda value: isinstance(value, bool),
    "scalar": lambda value: value is None or isinstance(value, str | bool) or _is_number(value),
}
_WANTED: dict[ParameterKind, str] = {
    "text": "text",
    "count": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "scalar": "text, a number, true, false or null",
}
_KINDS = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def _error(problem: str, document: Document, place: Place) -> ConfigError:
    return ConfigError(problem, path=document.name, line=document.line_of(place), where=written(place))
