"""Rules that cannot bite: names that no tool has, paths that no argument has, entries that nobody sets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ..contracts.shapes import Place
from ..contracts.spec import given_in
from ..match.keys import ALL, OF_SUBJECT

Oddity: TypeAlias = tuple[Place, str]
"""Where something stands, and why it cannot work."""

# The forms in which other tools write matchers, and how the same is written here.
_FORMS = (
    (re.compile(r"(\w[\w-]*)\((.*)\)"), "a call by its argument is {{tool: {0}, matches: PATTERN}}"),
    (re.compile(r"[\w-]+(?:\|[\w-]+)+"), "several tools are {any_of: [A, B]}"),
    (re.compile(r".*\.[*+].*"), "any text is * and not .*"),
    (re.compile(r"\^.*|.*\$"), "a name has no anchors, it is compared whole, and * is any text"),
    (re.compile(r".*[\[\]{}].*"), "brackets are characters here, several tools are {any_of: [A, B]}"),
    (re.compile(r".*,.*"), "several tools are {any_of: [A, B]}"),
    (re.compile(r".*[|()\\+;\"'`<>].*"), "names are no patterns, but * is any text and ? one character"),
)
_PATH_FORMS = (
    (re.compile(r".*,.*"), "it is one argument, and a comma is part of its name"),
    (re.compile(r".*[^.]\*.*|.*\*[^.].*"), "* is a whole part of a path, as in items.*.id"),
    (re.compile(r".*[\[\]].*"), "a position in a list is written items.0 and not items[0]"),
    (re.compile(r"\$.*"), "a path begins with the name of an argument"),
    (re.compile(r".*[/\\|].*"), "the parts of a path are separated by points"),
)


def unlikely_names(names: Mapping[str, Place]) -> Iterator[Oddity]:
    """Find names that no tool has, because they are written as patterns elsewhere are."""
    for name, place in names.items():
        hint = _hint(name, _FORMS)
        if hint is not None:
            yield place, f"no tool is called {name!r}: {hint}"


def unlikely_paths(spec: Mapping[str, Any], place: Place) -> Iterator[Oddity]:
    """Find the paths in a contract that no argument has."""
    for name, path, here in _paths_in(spec, place):
        hint = _hint(path, _PATH_FORMS)
        if hint is not None:
            where = "result" if name == "path" else "call"
            yield here, f"{name} {path!r} is in no {where}: {hint}"


def empty_options(spec: Mapping[str, Any], place: Place) -> Iterator[Oddity]:
    """Find options that are there and say nothing."""
    for within, options in ((place, spec), ((*place, "kwargs"), spec.get("kwargs") or {})):
        for name, value in options.items():
            if value is None:
                yield (*within, name), f"{name!r} is empty and says nothing"


def unset_entries(spec: Mapping[str, Any], place: Place, state: Mapping[str, Any]) -> Iterator[Oddity]:
    """Find state entries that a contract requires and that only code could set."""
    if spec["template"] != "requires_state":
        return
    named = {parameter.name: value for parameter, value, _ in given_in(spec, place)}
    entry = named["state_key"]
    if entry not in state:
        yield place, f"state entry {entry!r} is not in 'state': until code sets it, no call is allowed"
    elif _has_key(spec) and not isinstance(state[entry], dict):
        yield place, f"state entry {entry!r} is no mapping, so it has no entry for a key"


def _has_key(spec: Mapping[str, Any]) -> bool:
    # By name, and beside `state_key`, `key` is the option; alone among kwargs it is the entry.
    return spec.get("key") is not None or ("state_key" in spec.get("kwargs", {}) and "key" in spec["kwargs"])


def _hint(text: str, forms: tuple[tuple[re.Pattern[str], str], ...]) -> str | None:
    if text != text.strip():
        return "blanks at its ends are part of it"
    for form, hint in forms:
        found = form.fullmatch(text)
        if found is not None:
            return hint.format(*found.groups()) if found.groups() else hint
    return None


def _paths_in(spec: Mapping[str, Any], place: Place) -> Iterator[tuple[str, str, Place]]:
    for parameter, value, here in given_in(spec, place):
        if parameter.kind == "tool":
            yield from (("field", path, inner) for path, inner in _fields_in(value, here))
        elif parameter.name == "field":
            yield "field", value, here
        elif parameter.kind in ("source", "sources"):
            yield from (("path", path, inner) for path, inner in _source_paths_in(value, here))
    yield from (("key", path, here) for path, here in _keys_in(spec.get("key"), (*place, "key")))
    if spec["template"] != "requires_state" or _has_key(spec):
        key = spec.get("kwargs", {}).get("key")
        yield from (("key", path, here) for path, here in _keys_in(key, (*place, "kwargs", "key")))


def _source_paths_in(sources: Any, place: Place) -> Iterator[tuple[str, Place]]:
    for index, source in enumerate(sources if isinstance(sources, list) else [sources]):
        here = (*place, index) if isinstance(sources, list) else place
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            yield source["path"], (*here, "path")


def _keys_in(key: Any, place: Place) -> Iterator[tuple[str, Place]]:
    if isinstance(key, str) and key != ALL and not key.startswith(OF_SUBJECT):
        yield key, place
    elif isinstance(key, list):
        yield from ((path, (*place, i)) for i, path in enumerate(key) if not path.startswith(OF_SUBJECT))
    elif isinstance(key, dict):
        yield from ((path, (*place, tool)) for tool, path in key.items() if not path.startswith(OF_SUBJECT))


def _fields_in(matcher: Any, place: Place) -> Iterator[tuple[str, Place]]:
    if not isinstance(matcher, dict):
        return
    if isinstance(matcher.get("field"), str):
        yield matcher["field"], (*place, "field")
    if "not" in matcher:
        yield from _fields_in(matcher["not"], (*place, "not"))
    for index, inner in enumerate(matcher.get("any_of", ())):
        yield from _fields_in(inner, (*place, "any_of", index))
