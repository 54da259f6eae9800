"""Rules written in JSON."""

from __future__ import annotations

from typing import Any

from ..._plain.strict_json import JsonError, read_json
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
        return read_json(text)
    except JsonError as error:
        if error.repeated is not None:
            raise ConfigError(
                f"name {error.repeated!r:.80} appears twice in one object", line=error.line
            ) from error
        raise ConfigError(f"invalid JSON: {error.reason}", line=error.line) from error


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
