"""Read single words of a JSON schema: what they say of the parts of a value, and of which types they are."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_DEPTH: Final = 64

# What a condition may say for it to be decided here; and what says nothing.
_DECIDED = frozenset({"type", "const", "properties", "required", "title", "description", "$comment"})
# Where other parts of a schema may have a word on the items of a list.
_OF_OTHER_PARTS = frozenset(
    {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"}
)

TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def anchored(schema: object, name: str, depth: int = 0) -> Iterator[object]:
    """Find the schemas of a name that they give themselves."""
    if depth > MAX_DEPTH:
        return
    if isinstance(schema, Mapping):
        if name in (schema.get("$anchor"), schema.get("$dynamicAnchor")):
            yield schema
        for part in schema.values():
            yield from anchored(part, name, depth + 1)
    elif isinstance(schema, list):
        for part in schema:
            yield from anchored(part, name, depth + 1)


def named_schemas(schema: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    """Give the schemas that a word has by name; none if it has something else."""
    found = schema.get(word)
    return found if isinstance(found, Mapping) else {}


def properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the schemas of the names that an object may have."""
    return named_schemas(schema, "properties")


def schemas_of_name(schema: Mapping[str, Any], name: str) -> list[object]:
    """Give the schemas that an object has for the value of one name by itself."""
    named = properties(schema)
    own = [named[name]] if name in named else []
    own += [
        part for pattern, part in named_schemas(schema, "patternProperties").items() if _has(pattern, name)
    ]
    return own


def dependent_schemas(value: Any, schema: Mapping[str, Any]) -> list[object]:
    """Give the schemas that an object has to fit because of the names that it has."""
    if not isinstance(value, Mapping):
        return []
    # The second is how an early draft has it, which lists names there as well.
    words = ("dependentSchemas", "dependencies")
    return [part for word in words for name, part in named_schemas(schema, word).items() if name in value]


def is_decided(condition: object) -> bool:
    """Tell whether `is_as_said` can tell of every value whether it is as a condition says."""
    if not isinstance(condition, Mapping):
        return isinstance(condition, bool)
    is_flat = not isinstance(condition.get("const"), dict | list)
    parts = properties(condition).values()
    return is_flat and condition.keys() <= _DECIDED and all(map(is_decided, parts))


def _is_equal(value: Any, other: Any) -> bool:
    # JSON has no two kinds of numbers, and to Python 1 is True.
    return bool(value == other and isinstance(value, bool) is isinstance(other, bool))


def is_as_said(value: Any, condition: Any) -> bool:
    """Tell whether a value is as a condition that is decided says."""
    if not isinstance(condition, Mapping):
        return bool(condition)
    if "const" in condition and not _is_equal(value, condition["const"]):
        return False
    declared = declared_types({"type": condition.get("type")})
    if declared and not declared & (types_of(value) if value is not None else {"null"}):
        return False
    if not isinstance(value, Mapping):
        return True
    required = condition.get("required")
    if isinstance(required, list) and not all(name in value for name in required if isinstance(name, str)):
        return False
    return all(is_as_said(value[name], part) for name, part in properties(condition).items() if name in value)


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


def item_schema(schema: Mapping[str, Any], index: int) -> object:
    """Give the schema of an item of a list."""
    # The second is how an early draft has it.
    first = list(listed_schemas(schema, "prefixItems")) or list(listed_schemas(schema, "items"))
    if index < len(first):
        return first[index]
    rest = schema.get("additionalItems") if isinstance(schema.get("items"), list) else schema.get("items")
    if rest is None and _OF_OTHER_PARTS.isdisjoint(schema):
        return schema.get("unevaluatedItems")
    return rest  # or what another part of the schema has a word on, which is looked at there


def listed_schemas(schema: Mapping[str, Any], word: str) -> Iterator[object]:
    """Give the schemas that a word has in a list; none if it has something else."""
    parts = schema.get(word)
    yield from parts if isinstance(parts, list) else ()


def declared_types(schema: Mapping[str, Any]) -> set[str]:
    """Name the types that a value may have; none where all may be."""
    declared = schema.get("type")
    named = [declared] if isinstance(declared, str) else declared
    if isinstance(named, list):
        # As an early draft has it, and servers that nobody generated.
        return set() if "any" in named else {name for name in named if isinstance(name, str)}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return set().union(*map(types_of, values)) if isinstance(values, list) else set()


def types_of(value: Any) -> set[str]:
    """Name the types that a value has. Null has all: it hides nothing."""
    if value is None:
        return set(TYPES) | {"null"}
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return {"integer", "number"}
    if isinstance(value, float):
        return {"number"}
    if isinstance(value, str):
        return {"string"}
    return {"array"} if isinstance(value, list) else {"object"}
