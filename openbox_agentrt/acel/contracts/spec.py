"""
Contracts from plain data, such as ``{"template": "must_precede", "args": ["a", "b"]}``.

`build_contract` and rules files have one reading: what one of them accepts, the other does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from ..._extras import MissingExtraError
from ..._plain.calendar import Per
from ..._plain.spelling import Fold
from ..match.matchers import ToolMatcher, any_of, matching, not_matching
from ..verdict import Mode, OnViolation, Severity
from .parameters import OPTIONS, Parameter, parameters_of
from .reach import Scope
from .registry import CLASSES
from .shapes import Field, Place, SpecError, check_kind, kind_of, shaped

if TYPE_CHECKING:
    from ..condition.fact import Fact
    from .sources import SourceGiven
    from .template import Template

_MAX_NESTED_MATCHERS = 8


_TEXT = Field("text")
CONTRACT: dict[str, Field] = {
    "template": Field("text", required=True),
    "args": Field("list"),
    "kwargs": Field("mapping"),
    "id": _TEXT,
    "description": _TEXT,
    "severity": Field("text", among=get_args(Severity)),
    "mode": Field("text", among=get_args(Mode)),
    "remedy": _TEXT,
    "on_violation": Field("text", among=get_args(OnViolation)),
    "key": Field("key"),
    "fold": Field("text", among=get_args(Fold)),
    "except": Field("matchers"),
    "when": _TEXT,
    "facts": Field("list"),
    "within": Field("number"),
    "recheck": Field("flag"),
    "scope": Field("text", among=get_args(Scope)),
    "per": Field("text", among=get_args(Per)),
    "tz": _TEXT,
    "forever": Field("flag"),
    "overshoot": Field("flag"),
    "name": _TEXT,
}
"""A contract as it stands in data, with the options of every template."""

WORDS: dict[str, Field] = {"since": Field("matchers"), "estimate": Field("number"), "check": _TEXT}
"""Arguments of single templates that may stand beside the template, as options do."""

_PATTERN = {
    "tool": Field("text", required=True),
    "matches": Field("text", required=True),
    "field": _TEXT,
    "line": Field("flag"),
}
_LISTED = {"values": Field("list", required=True)}
_SOURCE = {"tool": Field("matcher", required=True), "path": _TEXT, "named": Field("flag")}
_IN_PYTHON = {"except": "except_"}
_NOT = {"not": Field("mapping", required=True)}
_ANY_OF = {"any_of": Field("list", required=True)}


def build_contract(spec: Mapping[str, Any], *, place: Place = ()) -> Template:
    """
    Build the contract that a mapping describes.

    Args:
        spec: ``{"template": name, "args": [...], "kwargs": {...}}`` and options, as in a rules file. Where a
            tool is expected, there may be ``{"tool": name, "matches": pattern, "field": path}`` for the
            calls whose argument contains a pattern, ``{"not": {...}}`` for those whose does not, or
            ``{"any_of": [...]}`` for several.
        place: Where it stands, for messages.

    Raises:
        SpecError: Something in it is not understood, or out of range.
    """
    if not isinstance(spec, Mapping):
        raise SpecError(f"must be a mapping, got {kind_of(spec)}", place)
    shape = shaped(spec, {**CONTRACT, **WORDS}, place)
    template = shape["template"]
    if template not in CLASSES:
        from difflib import get_close_matches

        near = get_close_matches(template, CLASSES, n=1)
        expected = f"did you mean {near[0]}" if near else f"expected one of {', '.join(sorted(CLASSES))}"
        raise SpecError(f"unknown template {template!r:.80}, {expected}", (*place, "template"))
    given = _Arguments(shape, place).given()
    for name in {"when", "check"} & given.keys():
        with _at((*place, name)):
            _check_condition(given[name], given.get("facts", ()))
    with _at(place):
        return CLASSES[template](**given)


def _check_condition(text: Any, facts: Iterable[Fact]) -> None:
    from ..condition.condition import Condition

    Condition(text, facts)


def tools_in(data: Any) -> Iterator[tuple[str, str]]:
    """Find the names of tools in a contract that was built, each with the parameter that it stands for."""
    for parameter, value, _ in given_in(data, ()):
        if parameter.kind == "tool":
            yield from ((parameter.name, name) for name in _names_in(value))
        elif parameter.kind in ("source", "sources"):
            for source in value if parameter.kind == "sources" else [value]:
                if isinstance(source, Mapping) and "tool" in source:
                    yield from ((parameter.name, name) for name in _names_in(source["tool"]))
    for fact in data.get("facts", ()):
        yield from (
            ("facts", name) for name in ([fact["tool"]] if isinstance(fact["tool"], str) else fact["tool"])
        )
    excepted = data.get("except", data.get("kwargs", {}).get("except"))
    for value in excepted if isinstance(excepted, list | tuple) else [excepted] if excepted else ():
        yield from (("except", name) for name in _names_in(value))


def given_in(spec: Mapping[str, Any], place: Place) -> Iterator[tuple[Parameter, Any, Place]]:
    """Find what stands in a contract for the parameters of its template, each with its place."""
    parameters = parameters_of(spec["template"])
    for index, (parameter, value) in enumerate(zip(parameters, spec.get("args", ()), strict=False)):
        yield parameter, value, (*place, "args", index)
    by_name = {name: each for each in parameters for name in (each.name, each.alias) if name}
    for name, value in spec.get("kwargs", {}).items():
        if name in by_name:
            yield by_name[name], value, (*place, "kwargs", name)
    for name in WORDS:
        if spec.get(name) is not None and name in by_name:
            yield by_name[name], spec[name], (*place, name)


def _names_in(matcher: Any) -> Iterator[str]:
    if isinstance(matcher, str):
        yield matcher
    elif "any_of" in matcher:
        for one in matcher["any_of"]:
            yield from _names_in(one)
    elif "not" in matcher:
        yield from _names_in(matcher["not"])
    else:
        yield matcher["tool"]


class _Arguments:
    """Everything that is given for a template, by name, each thing once."""

    def __init__(self, shape: dict[str, Any], place: Place) -> None:
        self._shape = shape
        self._place = place
        self._template = shape["template"]
        self._parameters = parameters_of(self._template)
        self._given: dict[str, Any] = {}

    def given(self) -> dict[str, Any]:
        self._take_args()
        self._take_kwargs()
        if "facts" in self._shape:
            from .fact_spec import facts_from

            self._given["facts"] = facts_from(self._shape["facts"], (*self._place, "facts"))
        for name in OPTIONS:
            if name in self._shape:
                self._give_option(name, self._shape[name], (*self._place, name))
        self._take_words()
        for parameter in self._parameters:
            if parameter.required and parameter.name not in self._given:
                name = parameter.alias or parameter.name
                raise SpecError(f"{self._template} needs {name!r}", self._place)
        return self._given

    def _take_args(self) -> None:
        positional = [parameter for parameter in self._parameters if parameter.positional]
        args, place = self._shape.get("args", []), (*self._place, "args")
        if len(args) > len(positional):
            problem = f"{self._template} takes at most {len(positional)} arguments, got {len(args)}"
            raise SpecError(problem, place)
        for index, (parameter, value) in enumerate(zip(positional, args, strict=False)):
            self._given[parameter.name] = _value(value, parameter, (*place, index))

    def _take_words(self) -> None:
        by_name = {parameter.name: parameter for parameter in self._parameters}
        for name in WORDS:
            if name not in self._shape:
                continue
            place = (*self._place, name)
            if name not in by_name:
                raise SpecError(f"{self._template} has no {name!r}", place)
            self._give(name, _value(self._shape[name], by_name[name], place), place)

    def _take_kwargs(self) -> None:
        known = self._known()
        for name, value in self._shape.get("kwargs", {}).items():
            place = (*self._place, "kwargs", name)
            if name in known:
                self._give(known[name].name, _value(value, known[name], place), place)
            elif name in OPTIONS:
                self._give_option(name, value, place)
            else:
                takes = ", ".join(parameter.alias or parameter.name for parameter in self._parameters)
                raise SpecError(f"{self._template} has no argument {name!r:.80}, it takes {takes}", place)

    def _known(self) -> dict[str, Parameter]:
        known = {parameter.name: parameter for parameter in self._parameters}
        taken = self._given.keys() | self._shape.get("kwargs", {}).keys()
        for parameter in self._parameters:
            # Once a parameter is there under its own name, its alias is the option that every template has.
            if parameter.alias is not None and parameter.name not in taken:
                known[parameter.alias] = parameter
        return known

    def _give_option(self, name: str, value: Any, place: Place) -> None:
        if name == "except" and value is not None:
            value = _excepted(value, place)
        self._give(_IN_PYTHON.get(name, name), value, place)

    def _give(self, name: str, value: Any, place: Place) -> None:
        if name in self._given:
            raise SpecError(f"{place[-1]!r} is given twice", place)
        self._given[name] = value


def _excepted(value: Any, place: Place) -> list[ToolMatcher]:
    several = value if isinstance(value, list | tuple) else [value]
    if not several:
        raise SpecError("there is nothing that is excepted", place)
    return [
        _matcher(one, (*place, index) if several is value else place, 0) for index, one in enumerate(several)
    ]


def _value(value: Any, parameter: Parameter, place: Place) -> Any:
    if parameter.kind == "tool":
        return _matcher(value, place, 0)
    if parameter.kind == "source":
        return _source(value, place)
    if parameter.kind == "sources":
        check_kind(value, "list", place)
        return [_source(one, (*place, index)) for index, one in enumerate(value)]
    check_kind(value, parameter.kind, place)
    return value


def _source(value: Any, place: Place) -> SourceGiven:
    from .sources import PROMPT

    if value == PROMPT:
        return PROMPT
    if not isinstance(value, dict) or not {"tool", "values"} & value.keys():
        # As it is given in Python.
        raise SpecError(f"must be prompt, {{tool, path, named}} or {{values}}, got {value!r:.80}", place)
    if "values" in value:
        return shaped(value, _LISTED, place)
    source = shaped(value, _SOURCE, place)
    return {**source, "tool": _matcher(source["tool"], (*place, "tool"), 0)}


def _matcher(value: Any, place: Place, depth: int) -> ToolMatcher:
    if isinstance(value, str):
        if not value:
            raise SpecError("a tool must be named, got ''", place)
        return value
    if not isinstance(value, dict):
        raise SpecError(f"must be the name of a tool or a matcher, got {kind_of(value)}", place)
    if "any_of" in value:
        return _any_of(value, place, depth)
    if "not" in value:
        inner = shaped(value, _NOT, place)["not"]
        return _pattern(inner, (*place, "not"), not_matching)
    return _pattern(value, place, matching)


def _pattern(value: dict[str, Any], place: Place, build: Callable[..., ToolMatcher]) -> ToolMatcher:
    if not {"tool", "matches"} <= value.keys():
        # As acel-core writes it.
        problem = f"a matcher must have 'tool' and 'matches' (optionally 'field'), got {sorted(value)!r:.80}"
        raise SpecError(problem, place)
    shape = shaped(value, _PATTERN, place)
    with _at(place):
        field, line = shape.get("field", "command"), shape.get("line", False)
        return build(shape["tool"], shape["matches"], field=field, line=line)


def _any_of(value: dict[str, Any], place: Place, depth: int) -> ToolMatcher:
    if depth >= _MAX_NESTED_MATCHERS:
        raise SpecError("any_of is nested too deeply", place)
    several = shaped(value, _ANY_OF, place)["any_of"]
    inner = (*place, "any_of")
    with _at(inner):
        return any_of(*[_matcher(one, (*inner, index), depth + 1) for index, one in enumerate(several)])


@contextmanager
def _at(place: Place) -> Iterator[None]:
    """Say of what a template or a matcher refuses where it stands."""
    try:
        yield
    except SpecError:
        raise
    except (TypeError, ValueError, MissingExtraError) as error:
        raise SpecError(" ".join(str(error).split()), place) from error
