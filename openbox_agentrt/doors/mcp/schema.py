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

_MAX_DEPTH = 64
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
    for problem in reader.problems(args, schema, (), 0):
        raise OffSchemaError(problem)
    read: dict[str, Any] = reader.filled(dict(args), schema)
    return read


class _Reader:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def filled(self, value: Any, schema: object) -> Any:
        """Give a value in which nothing is a problem, with defaults for what it leaves out."""
        if not isinstance(schema, Mapping):
            return value
        if "$ref" in schema:
            value = self.filled(value, self._referred(schema["$ref"]))
        for part in _schemas(schema, "allOf"):
            value = self.filled(value, part)
        for word in ("anyOf", "oneOf"):
            value = self.filled(
                value, next((p for p in _schemas(schema, word) if self._fits(value, p)), None)
            )
        if isinstance(value, Mapping):
            given = {
                name: functools.reduce(self.filled, _parts(schema, name), item)
                for name, item in value.items()
            }
            return {**_defaults(schema), **given}
        if isinstance(value, list):
            return [self.filled(item, _item(schema, index)) for index, item in enumerate(value)]
        return value

    def _fits(self, value: Any, schema: object) -> bool:
        if isinstance(schema, Mapping) and "$ref" in schema:
            return self._fits(value, self._referred(schema["$ref"]))
        if any(self.problems(value, schema, (), 0)):
            return False
        return not isinstance(schema, Mapping) or not isinstance(value, Mapping) or _is_meant(value, schema)

    def problems(self, value: Any, schema: object, path: tuple[str, ...], depth: int) -> Iterator[str]:
        if not isinstance(schema, Mapping):
            return
        if depth > _MAX_DEPTH:
            yield f"argument {_shown(path)} is nested too deeply"
            return
        if "$ref" in schema:
            yield from self.problems(value, self._referred(schema["$ref"]), path, depth + 1)
        for part in _schemas(schema, "allOf"):
            yield from self.problems(value, part, path, depth + 1)
        for word in ("anyOf", "oneOf"):
            found = [list(self.problems(value, part, path, depth + 1)) for part in _schemas(schema, word)]
            if found and all(found):
                yield found[0][0]
        declared = _declared_types(schema)
        if declared and not declared & _types_of(value):
            yield _mismatch(path, value, declared)
        yield from self._inside(value, schema, path, depth)

    def _inside(
        self, value: Any, schema: Mapping[str, Any], path: tuple[str, ...], depth: int
    ) -> Iterator[str]:
        if isinstance(value, Mapping):
            for name, item in value.items():
                for part in _parts(schema, name):
                    yield from self.problems(item, part, (*path, name), depth + 1)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.problems(item, _item(schema, index), (*path, str(index)), depth + 1)

    def _referred(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            # Elsewhere: not declared here, as far as anybody can tell.
            return None
        found: object = self._root
        for step in reference.lstrip("#").strip("/").split("/") if reference != "#" else ():
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


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
    required = schema.get("required")
    if isinstance(required, list) and not all(name in value for name in required):
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
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}
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


def _mismatch(path: tuple[str, ...], value: Any, declared: set[str]) -> str:
    wanted = " or ".join(_WORDS.get(name, name[:20]) for name in sorted(declared))
    given = _WORDS[min(_types_of(value), key=list(_WORDS).index)]
    return f"argument {_shown(path)} is {given}, and the tool declares {wanted}"


def _shown(path: tuple[str, ...]) -> str:
    return repr(".".join(path)[:100])
