"""
The JSON Schema of rules files, for editors and other tools.

It is made from the templates, and published as `rules.schema.json` with the package: ``just schema`` writes
that file anew. It says what can be said about the shape of a file: that a pattern compiles, that a group is
there and that no id is used twice is checked by `read_rules` alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, get_args

from openbox_agentrt._plain.calendar import Per
from openbox_agentrt._plain.spelling import Fold
from openbox_agentrt.acel.contracts.parameters import Parameter, ParameterKind, parameters_of
from openbox_agentrt.acel.contracts.reach import Scope
from openbox_agentrt.acel.contracts.registry import CLASSES
from openbox_agentrt.acel.contracts.sources import PROMPT
from openbox_agentrt.acel.contracts.spec import WORDS
from openbox_agentrt.acel.match.provenance import Match
from openbox_agentrt.acel.verdict import Mode, OnViolation, Severity

_ID = "urn:openbox-agentrt:rules-file"
_TEXT = {"type": "string", "minLength": 1}
_NAME = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
_PATH = {"type": "string", "pattern": r"^[^.]+(\.[^.]+)*$"}

# A path in which no part is *.
_ONE_VALUE = {"type": "string", "pattern": r"^(?!(.*\.)?\*(\.|$))[^.]+(\.[^.]+)*$"}

_OPTIONS: dict[str, Any] = {
    "id": {**_TEXT, "description": "A name of its own, for reports."},
    "description": {**_TEXT, "description": "What the contract is for."},
    "severity": {"enum": list(get_args(Severity)), "description": "How bad a violation is."},
    "mode": {"enum": list(get_args(Mode)), "description": "shadow only watches."},
    "remedy": {**_TEXT, "description": "Advice for whoever is refused."},
    "accept": {
        "type": "object",
        "additionalProperties": _TEXT,
        "description": "Findings of openbox-agentrt analyse that are meant, each with the reason.",
    },
    "on_violation": {
        "enum": list(get_args(OnViolation)),
        "description": "halt stops the session, refuse only the call.",
    },
    "key": {
        "description": "Argument for each of whose values the contract holds separately; * for all of them.",
        "anyOf": [
            {"const": "*"},
            _ONE_VALUE,
            {"type": "array", "minItems": 1, "uniqueItems": True, "items": _ONE_VALUE},
            {"type": "object", "minProperties": 1, "additionalProperties": _ONE_VALUE},
        ],
    },
    "fold": {"enum": list(get_args(Fold)), "description": "Which spellings of a key are one."},
    "except": {
        "description": "Calls that are none of its business.",
        "anyOf": [
            {"$ref": "#/$defs/tool"},
            {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/tool"}},
        ],
    },
    "recheck": {
        "type": "boolean",
        "description": "Whether a call that has waited is judged again before it runs.",
    },
    "when": {
        **_TEXT,
        "description": "A condition (CEL): calls for which it is false are neither limited nor counted.",
    },
    "within": {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "Seconds after which a prerequisite no longer counts; the window of a total.",
    },
    "scope": {
        "enum": list(get_args(Scope)),
        "description": "Whose calls it counts together; fleet: those of every process with the same store.",
    },
    "per": {"enum": list(get_args(Per)), "description": "The calendar period after which it counts anew."},
    "tz": {**_TEXT, "description": "The time zone of per, UTC by default."},
    "forever": {"type": "boolean", "description": "That a contract of the fleet never counts anew is meant."},
    "overshoot": {
        "type": "boolean",
        "description": "Amounts known only afterwards may pass a limit of the fleet meanwhile.",
    },
    "name": {**_TEXT, "description": "What a contract of the fleet counts, where code says which calls."},
}
_LOCAL_SCOPE = {"enum": [scope for scope in get_args(Scope) if scope != "fleet"]}
_KINDS: dict[ParameterKind, Any] = {
    "tool": {"$ref": "#/$defs/tool"},
    "text": _TEXT,
    "count": {"type": "integer", "minimum": 0},
    "number": {"type": "number", "minimum": 0},
    "flag": {"type": "boolean"},
    "scalar": {"type": ["string", "number", "boolean", "null"]},
    "source": {"$ref": "#/$defs/source"},
    "sources": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/source"}},
}
# What a template asks of a parameter beyond its kind.
_CLOSER: dict[tuple[str, str], Any] = {
    ("existence", "n"): {"type": "integer", "minimum": 1},
    ("at_most_in_flight", "n"): {"type": "integer", "minimum": 1},
    ("at_most_total", "estimate"): {"type": "number", "minimum": 0},
    ("rate_limit", "n"): {"type": "integer", "minimum": 1},
    ("rate_limit", "window_seconds"): {"type": "number", "exclusiveMinimum": 0},
    ("response", "within"): _OPTIONS["within"],
    ("at_most_total", "field"): _PATH,
    ("max_distinct", "field"): _PATH,
    ("came_from", "field"): _PATH,
    ("came_from", "match"): {"enum": list(get_args(Match))},
    ("keeps_out", "field"): _PATH,
    ("keeps_out", "source"): {"$ref": "#/$defs/result"},
}


def rules_schema() -> dict[str, Any]:
    """The schema, made from the templates as they are."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": "Rules file of openbox-agentrt",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "$schema": {"type": "string"},
            "description": {"type": "string"},
            "allow_empty": {"type": "boolean", "description": "Whether a file without contracts is meant."},
            "only": {
                "type": "array",
                "minItems": 1,
                "items": {"$ref": "#/$defs/tool"},
                "description": "These tools and no others.",
            },
            "unknown_tools": {
                "enum": ["allow", "refuse"],
                "description": "Whether tools are allowed that the file does not name.",
            },
            "state": {"type": "object", "description": "Initial state of a session."},
            "initial_state": {"type": "object", "description": "Old name of state."},
            "facts": {
                "type": "array",
                "items": {"$ref": "#/$defs/fact"},
                "description": "What successful calls tell the session, for conditions to read.",
            },
            "groups": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"$ref": "#/$defs/contract"}},
            },
            "tests": {
                "type": "array",
                "items": {"type": "object"},
                "description": "Calls, and what is expected of each; openbox-agentrt test runs them.",
            },
            "contracts": {
                "type": "array",
                "items": {
                    "if": {"type": "object", "required": ["group"]},
                    "then": {"$ref": "#/$defs/group"},
                    "else": {"$ref": "#/$defs/contract"},
                },
            },
        },
        "not": {
            "required": ["only", "unknown_tools"],
            "properties": {"unknown_tools": {"const": "refuse"}},
        },
        "anyOf": [
            {"properties": {"allow_empty": {"const": True}}, "required": ["allow_empty"]},
            {"required": ["only"]},
            {"properties": {"contracts": {"minItems": 1}}, "required": ["contracts"]},
        ],
        "$defs": {
            "group": {
                "type": "object",
                "additionalProperties": False,
                "required": ["group"],
                "properties": {"group": _TEXT},
            },
            "tool": {
                "description": "A tool, tools by a pattern over their names, or calls by their arguments.",
                "anyOf": [
                    _TEXT,
                    {"$ref": "#/$defs/pattern"},
                    {
                        "description": "The other calls of that tool.",
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["not"],
                        "properties": {"not": {"$ref": "#/$defs/pattern"}},
                    },
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["any_of"],
                        "properties": {
                            "any_of": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/tool"}}
                        },
                    },
                ],
            },
            "pattern": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "matches"],
                "properties": {
                    "tool": _TEXT,
                    "matches": {"type": "string", "description": "A regular expression (RE2)."},
                    "field": {**_PATH, "default": "command"},
                    "line": {"type": "boolean", "description": "Whether a list of words is a command line."},
                },
            },
            "source": {
                "description": "Where a value may come from.",
                "anyOf": [
                    {"const": PROMPT, "description": "The user's text names it."},
                    _result(named=True),
                    {
                        "description": "It is one of these.",
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["values"],
                        "properties": {
                            "values": {
                                "type": "array",
                                "minItems": 1,
                                "items": {"type": ["string", "number"]},
                            }
                        },
                    },
                ],
            },
            "result": _result(named=False),
            "fact": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "as"],
                "properties": {
                    "tool": {
                        "description": "The tool, or several.",
                        "anyOf": [_TEXT, {"type": "array", "minItems": 1, "items": _TEXT}],
                    },
                    "as": {**_NAME, "description": "What conditions call it: facts.name"},
                    "key": {**_ONE_VALUE, "description": "An argument, or result.path."},
                    "fold": _OPTIONS["fold"],
                    "values": {
                        "type": "object",
                        "propertyNames": _NAME,
                        "additionalProperties": _PATH,
                        "description": "A path in the result, args.path, or result as a whole.",
                    },
                },
                "dependentRequired": {"fold": ["key"]},
            },
            "contract": {
                "type": "object",
                "required": ["template"],
                "properties": {"template": {"enum": list(CLASSES)}},
                "allOf": [
                    {
                        "if": {"properties": {"template": {"const": name}}, "required": ["template"]},
                        "then": {"$ref": f"#/$defs/{name}"},
                    }
                    for name in CLASSES
                ],
            },
            **{f"option_{name}": option for name, option in _OPTIONS.items()},
            **{name: _template(name) for name in CLASSES},
        },
    }


def _result(*, named: bool) -> dict[str, Any]:
    texts = {"named": {"type": "boolean", "description": "Whether it is named in a text there."}}
    return {
        "description": "It stands in a result.",
        "type": "object",
        "additionalProperties": False,
        "required": ["tool"],
        "properties": {"tool": {"$ref": "#/$defs/tool"}, "path": _PATH, **(texts if named else {})},
    }


def _template(template: str) -> dict[str, Any]:
    parameters = parameters_of(template)
    positional = [parameter for parameter in parameters if parameter.positional]
    options = _options(template)
    own = {parameter.name: _kind(template, parameter) for parameter in parameters}
    words = {name: kind for name, kind in own.items() if name in WORDS}
    aliases = {parameter.alias for parameter in parameters}
    return {
        "description": (CLASSES[template].__doc__ or "").strip().partition("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "required": ["template"],
        "properties": {
            "template": {"const": template},
            "args": {
                "type": "array",
                "prefixItems": [_kind(template, parameter) for parameter in positional],
                "maxItems": len(positional),
            },
            "kwargs": {"type": "object", "additionalProperties": False, "properties": {**options, **own}},
            **options,
            **words,
            "facts": {"type": "array", "items": {"$ref": "#/$defs/fact"}},
        },
        "dependentSchemas": {
            name: _not_in_kwargs(name) for name in (*options, *words) if name not in aliases
        },
        # One branch for each number of arguments by position: what is not among them may come by name, and
        # what is must not come twice.
        "anyOf": [
            branch
            for count in range(len(positional) + 1)
            for branch in _branches(parameters, positional, count, options.keys())
        ],
    }


def _options(template: str) -> dict[str, Any]:
    kind = CLASSES[template]
    options: dict[str, Any] = {
        name: {"$ref": f"#/$defs/option_{name}"}
        for name in _OPTIONS
        if not {name, f"{name}_"} & kind.without and (template == "at_most_total" or name != "overshoot")
    }
    if kind.local_because is not None:
        options["scope"] = _LOCAL_SCOPE
    for name in ("per", "tz", "forever", "name") if kind.local_because is not None else ():
        options.pop(name)
    for name in ("per", "tz", "forever") if kind.windowed else ():
        options.pop(name)
    return options


def _branches(
    parameters: tuple[Parameter, ...], positional: list[Parameter], count: int, options: Collection[str]
) -> list[dict[str, Any]]:
    given = [parameter.name for parameter in positional[:count]]
    missing = [parameter for parameter in parameters if parameter.required and parameter.name not in given]
    branches: list[dict[str, Any]] = []
    for choice in _choices([[p.name, *([p.alias] if p.alias else [])] for p in missing]):
        # Where an alias stands for the parameter, the option of that name can stand beside the template only.
        taken = {p.alias for p in parameters if p.alias and p.alias not in choice}
        twice = [*given, *(p.name for p in missing if p.alias in choice)]
        branch: dict[str, Any] = {
            "properties": {
                "args": {"minItems": count, "maxItems": count},
                "kwargs": {"required": choice, "properties": dict.fromkeys(twice, False)},
                **{option: False for option in given if option in options},
            },
            "required": [*(["args"] if count else []), *(["kwargs"] if choice else [])],
        }
        if taken:
            branch["dependentSchemas"] = {option: _not_in_kwargs(option) for option in sorted(taken)}
        branches += _with_words(branch, choice, parameters)
    return branches


def _with_words(
    branch: dict[str, Any], choice: list[str], parameters: tuple[Parameter, ...]
) -> Iterator[dict[str, Any]]:
    """Give a branch, and those in which a required argument that may stand beside the template does."""
    words = [p.name for p in parameters if p.required and p.name in WORDS]
    properties = branch["properties"]
    yield {**branch, "properties": {**properties, **dict.fromkeys(words, False)}} if words else branch
    for name in set(words) & set(choice):
        rest = [other for other in choice if other != name]
        required = [one for one in branch["required"] if one != "kwargs" or rest]
        kwargs = {**properties["kwargs"], "required": rest}
        yield {**branch, "properties": {**properties, "kwargs": kwargs}, "required": [*required, name]}


def _not_in_kwargs(option: str) -> dict[str, Any]:
    return {"properties": {"kwargs": {"properties": {option: False}}}}


def _choices(names: list[list[str]]) -> list[list[str]]:
    choices: list[list[str]] = [[]]
    for several in names:
        choices = [[*choice, name] for choice in choices for name in several]
    return choices


def _kind(template: str, parameter: Parameter) -> Any:
    return _CLOSER.get((template, parameter.name), _KINDS[parameter.kind])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(rules_schema(), indent=1) + "\n", encoding="utf-8")
