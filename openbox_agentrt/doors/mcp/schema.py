"""
The arguments of a call against the schema that its tool was listed with.

A lax server reads ``"7"`` as 7 and the text of a list as the list, and what contracts counted would not be
what it ran. So a value of another type than the listed one is refused, and so is one whose schema is not
there to be read. Everything else that a schema says - required names, ranges, patterns - is the server's to
check: it changes no value. Where the branch of a condition hangs on that, one of the two has to fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from .schema_words import (
    MAX_DEPTH,
    TYPES,
    anchored,
    declared_types,
    dependent_schemas,
    is_as_said,
    is_decided,
    item_schema,
    listed_schemas,
    properties,
    schemas_of_name,
    types_of,
)

MAX_DEFAULTS = 100_000
"""So many defaults may be filled in for one call: a schema can have them within each other without end."""

_FLAT = frozenset({str, int, float, bool, type(None)})
_REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")
_COMBINING = frozenset({*_REFERRING, "allOf", "anyOf", "oneOf", "if"})
_OTHER_NAMES = frozenset({"additionalProperties", "unevaluatedProperties"})


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
        self._filled: set[tuple[tuple[str, ...], int]] = set()
        self._defaults_left = MAX_DEFAULTS

    def filled(self, value: Any, schema: object, path: tuple[str, ...]) -> Any:
        """Give a value in which nothing is a problem, with defaults for what it leaves out."""
        if not isinstance(schema, Mapping) or (type(value) in _FLAT and _COMBINING.isdisjoint(schema)):
            return value
        place = (path, id(schema))
        if place in self._filled:
            return value
        self._filled.add(place)
        return self._inner_filled(self._chosen(value, schema, path), schema, path)

    def _chosen(self, value: Any, schema: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        for word in _REFERRING:
            if word in schema:
                value = self.filled(value, self._referred(schema[word]), path)
        for part in (*listed_schemas(schema, "allOf"), *dependent_schemas(value, schema)):
            value = self.filled(value, part, path)
        branches = self._branches(value, schema)
        if len(branches) == 1:
            # Of two that may hold, nobody knows which defaults are filled in.
            value = self.filled(value, branches[0], path)
        for word in ("anyOf", "oneOf"):
            fitting = (part for part in listed_schemas(schema, word) if self._fits(value, part, path))
            value = self.filled(value, next(fitting, None), path)
        return value

    def _inner_filled(self, value: Any, schema: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            given = dict(value)
            for name in value:
                for part in self._parts(value, schema, name):
                    given[name] = self.filled(given[name], part, (*path, name))
            return {**self._defaults(given, schema, path), **given}
        if isinstance(value, list):
            return [
                self.filled(item, item_schema(schema, index), (*path, str(index)))
                for index, item in enumerate(value)
            ]
        return value

    def _defaults(
        self, given: Mapping[str, Any], schema: Mapping[str, Any], path: tuple[str, ...]
    ) -> dict[str, Any]:
        """Give the defaults of what is left out, filled as if they had been sent."""
        found = {}
        for name, declared in properties(schema).items():
            if name not in given and isinstance(declared, Mapping) and "default" in declared:
                self._defaults_left -= 1
                if self._defaults_left < 0:
                    raise OffSchemaError(f"argument {_shown(path)} has defaults within defaults without end")
                value, place = declared["default"], (*path, name)
                is_fit = self.problem(value, declared, place) is None
                found[name] = self.filled(value, declared, place) if is_fit else value
        return found

    def _branches(self, value: Any, schema: Mapping[str, Any]) -> list[object]:
        """Give the branch of a condition that holds, or both where that cannot be decided here."""
        if "if" not in schema:
            return []
        both = [schema.get("then"), schema.get("else")]
        if not is_decided(schema["if"]):
            return both
        return both[:1] if is_as_said(value, schema["if"]) else both[1:]

    def _fits(self, value: Any, schema: object, path: tuple[str, ...]) -> bool:
        return self.problem(value, schema, path) is None and self._is_meant(value, schema)

    def _is_meant(self, value: Any, schema: object) -> bool:
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                break
            schema = self._referred(schema["$ref"])
        return not isinstance(schema, Mapping) or not isinstance(value, Mapping) or _has_marks(value, schema)

    def problem(self, value: Any, schema: object, path: tuple[str, ...]) -> str | None:
        """Say what is wrong with a value first; None if nothing is."""
        if not isinstance(schema, Mapping):
            return None
        if len(path) > MAX_DEPTH:
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
        for word in _REFERRING:
            if word in schema:
                yield self._problem_referred(value, schema[word], path)
        for part in (*listed_schemas(schema, "allOf"), *dependent_schemas(value, schema)):
            yield self.problem(value, part, path)
        branches = [self.problem(value, part, path) for part in self._branches(value, schema)]
        if branches and all(branches):
            yield branches[0]
        for word in ("anyOf", "oneOf"):
            parts = list(listed_schemas(schema, word))
            if isinstance(value, Mapping):
                # One that asks for other names is none that it fits, whatever it says of types.
                parts = [part for part in parts if self._is_meant(value, part)] or parts
            found = [self.problem(value, part, path) for part in parts]
            if found and all(found):
                yield found[0]
        yield _mismatch(path, value, schema)
        if isinstance(value, Mapping):
            for name, item in value.items():
                for part in self._parts(value, schema, name):
                    yield self.problem(item, part, (*path, name))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield self.problem(item, item_schema(schema, index), (*path, str(index)))

    def _problem_referred(self, value: Any, reference: object, path: tuple[str, ...]) -> str | None:
        schema = self._referred(reference)
        if schema is None and value is not None:
            return (
                f"argument {_shown(path)} has a schema that is not in the list of tools: {reference!r:.100}"
            )
        return self.problem(value, schema, path)

    def _referred(self, reference: object) -> object:
        """Find a schema in the one that was listed; None for one that is elsewhere, or nowhere."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return next(anchored(self._root, pointer), None)
        found: object = self._root
        for step in pointer.split("/")[1:]:
            found = _at(found, step.replace("~1", "/").replace("~0", "~"))
        return found

    def _parts(self, value: Mapping[str, Any], schema: Mapping[str, Any], name: str) -> list[object]:
        """Give the schemas that the value of a name has to fit."""
        own = schemas_of_name(schema, name)
        if own:
            return own
        if "additionalProperties" in schema or "unevaluatedProperties" not in schema:
            return [schema.get("additionalProperties")]
        is_declared = any(
            self._is_declared(name, value, part, {id(schema)}) for part in self._about(value, schema)
        )
        return [] if is_declared else [schema["unevaluatedProperties"]]

    def _is_declared(self, name: str, value: Mapping[str, Any], schema: object, seen: set[int]) -> bool:
        """Tell whether a part of a schema that is about the same object has a word on a name."""
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return False
        seen.add(id(schema))
        if schemas_of_name(schema, name) or not _OTHER_NAMES.isdisjoint(schema):
            return True
        return any(self._is_declared(name, value, part, seen) for part in self._about(value, schema))

    def _about(self, value: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[object]:
        """Give the parts of a schema that are about the same object, as far as they hold for it."""
        yield from (self._referred(schema[word]) for word in _REFERRING if word in schema)
        for word in ("allOf", "anyOf", "oneOf"):
            yield from listed_schemas(schema, word)
        yield from dependent_schemas(value, schema)
        yield from self._branches(value, schema)
        if not is_decided(schema.get("if")) or is_as_said(value, schema["if"]):
            yield schema.get("if")


def _at(found: object, name: str) -> object:
    if isinstance(found, list):
        return found[int(name)] if name.isdecimal() and int(name) < len(found) else None
    return found.get(name) if isinstance(found, Mapping) else None


def _has_marks(value: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Tell whether an object has what tells this schema from others: required names, and constants."""
    if _mismatch((), value, schema) is not None:
        return False
    required = schema.get("required")
    if isinstance(required, list) and not all(isinstance(name, str) and name in value for name in required):
        return False
    constants = {name: one["const"] for name, one in properties(schema).items() if _has_constant(one)}
    return all(value.get(name, constant) == constant for name, constant in constants.items())


def _has_constant(schema: object) -> bool:
    return isinstance(schema, Mapping) and "const" in schema


def _mismatch(path: tuple[str, ...], value: Any, schema: Mapping[str, Any]) -> str | None:
    declared = declared_types(schema)
    if value is None or not declared or declared & types_of(value):
        return None
    wanted = " or ".join(TYPES.get(name, name[:20]) for name in sorted(declared))
    given = TYPES[min(types_of(value), key=list(TYPES).index)]
    return f"argument {_shown(path)} is {given}, and the tool declares {wanted}"


def _shown(path: tuple[str, ...]) -> str:
    return repr(".".join(path)[:100])
