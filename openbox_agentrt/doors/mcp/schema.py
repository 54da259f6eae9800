"""
The arguments of a call against the schema that its tool was listed with.

A lax server reads ``"7"`` as 7 and the text of a list as the list, and what contracts counted would not be
what it ran. So a value of another type than the listed one is refused. Everything else that a schema says -
required names, ranges, patterns - is the server's to check: it changes no value.
"""

from __future__ import annotations

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
    Give the arguments as the tool will read them: the same, with the defaults that the schema has.

    Raises:
        OffSchemaError: The type of one is not the declared one. A null passes for any type: it hides nothing.
    """
    if not isinstance(schema, Mapping):
        return dict(args)
    reader = _Reader(schema)
    for problem in reader.problems(args, schema, (), 0):
        raise OffSchemaError(problem)
    return {**reader.defaults(), **args}


class _Reader:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def defaults(self) -> dict[str, Any]:
        properties = self._root.get("properties")
        return {
            name: declared["default"]
            for name, declared in (properties.items() if isinstance(properties, Mapping) else ())
            if isinstance(declared, Mapping) and "default" in declared
        }

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
            properties = schema.get("properties")
            properties = properties if isinstance(properties, Mapping) else {}
            for name, item in value.items():
                part = properties.get(name, schema.get("additionalProperties"))
                yield from self.problems(item, part, (*path, name), depth + 1)
        elif isinstance(value, list):
            first = list(_schemas(schema, "prefixItems"))
            for index, item in enumerate(value):
                part = first[index] if index < len(first) else schema.get("items")
                yield from self.problems(item, part, (*path, str(index)), depth + 1)

    def _referred(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            # Elsewhere: not declared here, as far as anybody can tell.
            return None
        found: object = self._root
        for step in reference.lstrip("#").strip("/").split("/") if reference != "#" else ():
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


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
