"""
The arguments of a call against the schema that its tool was listed with.

A lax server reads ``"7"`` as 7 and the text of a list as the list, and what contracts counted would not be
what it ran. So a value of another type than the listed one is refused. Everything else that a schema says -
required names, ranges, patterns - is the server's to check: it changes no value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_MAX_DEPTH = 64
_FLAT = frozenset({str, int, float, bool, type(None)})
_COMBINING = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


class OffSchemaError(ValueError):
    """An argument is of another type than the tool was listed with. Its text holds no value of the call."""


def read_by_schema(args: Mapping[str, Any], schema: object) -> dict[str, Any]:
    """
    Give the arguments as the tool will read them: the same, with the defaults of the schema, at any depth.

    Of several schemas of which one has to fit, it is the first that does.

    Raises:
        OffSchemaError: The type of one is not the declared one. A null passes for any type: it hides nothing.
    """
    if not isinstance(schema, Mapping):
        return dict(args)
    reader = _Reader(schema)
    try:
        problem = reader.problem(args, schema, ())
        if problem is None:
            read: dict[str, Any] = reader.filled(dict(args), schema, ())
            return read
    except RecursionError:
        problem = "the arguments or their schema are nested too deeply"
    raise OffSchemaError(problem)


class _Reader:
    """Read the arguments of one call. A place in them and a schema are looked at once, however they meet."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._found: dict[tuple[tuple[str, ...], int], str | None] = {}
        self._filling: set[tuple[tuple[str, ...], int]] = set()

    def filled(self, value: Any, schema: object, path: tuple[str, ...]) -> Any:
        """Give a value in which nothing is a problem, with defaults for what it leaves out."""
        if not isinstance(schema, Mapping) or (type(value) in _FLAT and _COMBINING.isdisjoint(schema)):
            return value
        place = (path, id(schema))
        if place in self._filling:
            return value
        self._filling.add(place)
        value = self._inner_filled(self._chosen(value, schema, path), schema, path)
        self._filling.remove(place)
        return value

    def _chosen(self, value: Any, schema: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        if "$ref" in schema:
            value = self.filled(value, self._referred(schema["$ref"]), path)
        for part in _schemas(schema, "allOf"):
            value = self.filled(value, part, path)
        for word in ("anyOf", "oneOf"):
            fitting = (part for part in _schemas(schema, word) if self._fits(value, part, path))
            value = self.filled(value, next(fitting, None), path)
        return value

    def _inner_filled(self, value: Any, schema: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            given = dict(value)
            for name in value:
                for part in _parts(schema, name):
                    given[name] = self.filled(given[name], part, (*path, name))
            return {**_defaults(schema), **given}
        if isinstance(value, list):
            return [
                self.filled(item, _item(schema, index), (*path, str(index)))
                for index, item in enumerate(value)
            ]
        return value

    def _fits(self, value: Any, schema: object, path: tuple[str, ...]) -> bool:
        return self.problem(value, schema, path) is None and self._is_meant(value, schema)

    def _is_meant(self, value: Any, schema: object) -> bool:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                break
            schema = self._referred(schema["$ref"])
        return not isinstance(schema, Mapping) or not isinstance(value, Mapping) or _is_meant(value, schema)

    def problem(self, value: Any, schema: object, path: tuple[str, ...]) -> str | None:
        """Say what is wrong with a value first; None if nothing is."""
        if not isinstance(schema, Mapping):
            return None
        if len(path) > _MAX_DEPTH:
            return f"argument {_shown(path)} is nested too deeply"
        if type(value) in _FLAT and _COMBINING.isdisjoint(schema):
            return _mismatch(path, value, schema)
        place = (path, id(schema))
        if place not in self._found:
            # Where a schema comes back to itself without going deeper, it fits nothing by that.
            self._found[place] = f"argument {_shown(path)} has a schema that refers to itself"
            self._found[place] = next(filter(None, self._problems(value, schema, path)), None)
        return self._found[place]

    def _problems(self, value: Any, schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str | None]:
        if "$ref" in schema:
            yield self.problem(value, self._referred(schema["$ref"]), path)
        for part in _schemas(schema, "allOf"):
            yield self.problem(value, part, path)
        for word in ("anyOf", "oneOf"):
            parts = list(_schemas(schema, word))
            if isinstance(value, Mapping):
                # One that asks for other names is none that it fits, whatever it says of types.
                parts = [part for part in parts if self._is_meant(value, part)] or parts
            found = [self.problem(value, part, path) for part in parts]
            if found and all(found):
                yield found[0]
        yield _mismatch(path, value, schema)
        if isinstance(value, Mapping):
            for name, item in value.items():
                for part in _parts(schema, name):
                    yield self.problem(item, part, (*path, name))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield self.problem(item, _item(schema, index), (*path, str(index)))

    def _referred(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            # Elsewhere: not declared here, as far as anybody can tell.
            return None
        found: object = self._root
        for step in unquote(reference[1:]).strip("/").split("/") if reference != "#" else ():
            found = _at(found, step.replace("~1", "/").replace("~0", "~"))
        return found


def _at(found: object, name: str) -> object:
    if isinstance(found, list):
        return found[int(name)] if name.isdecimal() and int(name) < len(found) else None
    return found.get(name) if isinstance(found, Mapping) else None


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _parts(schema: Mapping[str, Any], name: str) -> list[object]:
    """Give the schemas that the value of a name has to fit."""
    properties, patterns = _properties(schema), schema.get("patternProperties")
    own = [properties[name]] if name in properties else []
    if isinstance(patterns, Mapping):
        own += [part for pattern, part in patterns.items() if _has(pattern, name)]
    return own or [schema.get("additionalProperties")]


def _has(pattern: str, name: str) -> bool:
    search = _searcher(pattern)
    return search is not None and search(name) is not None


@functools.lru_cache(maxsize=256)
def _searcher(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search
    except re2.error:
        # What it is a pattern of, nobody can tell: it is the server's to check.
        return None


def _item(schema: Mapping[str, Any], index: int) -> object:
    first = list(_schemas(schema, "prefixItems"))
    return first[index] if index < len(first) else schema.get("items")


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: declared["default"]
        for name, declared in _properties(schema).items()
        if isinstance(declared, Mapping) and "default" in declared
    }


def _is_meant(value: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Tell whether an object has what tells this schema from others: required names, and constants."""
    if _mismatch((), value, schema) is not None:
        return False
    required = schema.get("required")
    if isinstance(required, list) and not all(isinstance(name, str) and name in value for name in required):
        return False
    constants = {name: one["const"] for name, one in _properties(schema).items() if _has_constant(one)}
    return all(value.get(name, constant) == constant for name, constant in constants.items())


def _has_constant(schema: object) -> bool:
    return isinstance(schema, Mapping) and "const" in schema


def _schemas(schema: Mapping[str, Any], word: str) -> Iterator[object]:
    parts = schema.get(word)
    yield from parts if isinstance(parts, list) else ()


def _declared_types(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    named = [declared] if isinstance(declared, str) else declared
    if isinstance(named, list):
        # As an early draft has it, and servers that nobody generated.
        return set() if "any" in named else {name for name in named if isinstance(name, str)}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return set().union(*map(_types_of, values)) if isinstance(values, list) else set()


def _types_of(value: Any) -> set[str]:
    if value is None:
        return set(_WORDS) | {"null"}
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return {"integer", "number"}
    if isinstance(value, float):
        return {"number"}
    if isinstance(value, str):
        return {"string"}
    return {"array"} if isinstance(value, list) else {"object"}


def _mismatch(path: tuple[str, ...], value: Any, schema: Mapping[str, Any]) -> str | None:
    declared = _declared_types(schema)
    if value is None or not declared or declared & _types_of(value):
        return None
    wanted = " or ".join(_WORDS.get(name, name[:20]) for name in sorted(declared))
    given = _WORDS[min(_types_of(value), key=list(_WORDS).index)]
    return f"argument {_shown(path)} is {given}, and the tool declares {wanted}"


def _shown(path: tuple[str, ...]) -> str:
    return repr(".".join(path)[:100])
