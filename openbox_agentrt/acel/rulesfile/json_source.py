"""Rules written in JSON."""

from __future__ import annotations

import json
from typing import Any

from .errors import ConfigError
from .positions import Lines, lines_of

__all__ = ("json_lines", "parse_json")


def parse_json(text: str) -> Any:
    """
    Read JSON strictly: no name twice in an object, no NaN, nothing without end.

    Raises:
        ConfigError: If it is anything else. It knows the line where the parser does.
    """
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
    except json.JSONDecodeError as error:
        raise ConfigError(f"invalid JSON: {error.msg.lower()}", line=error.lineno) from error
    except RecursionError as error:
        raise ConfigError("invalid JSON: nested too deeply") from error
    except ValueError as error:
        # A number of thousands of digits.
        raise ConfigError("invalid JSON: a number is too long") from error


def json_lines(text: str) -> Lines:
    """
    The lines of the values in a JSON text, as far as they can be told.

    JSON is nearly YAML, and the YAML parser knows its lines. Where the two differ there are no lines, which
    costs an error message its line and nothing else.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    return {} if root is None else lines_of(root)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in pairs:
        if name in data:
            raise ConfigError(f"name {name!r:.80} appears twice in one object")
        data[name] = value
    return data


def _no_constants(constant: str) -> Any:
    raise ConfigError(f"invalid JSON: {constant} is no number")
