"""A rules file, read: its data and where each value stands."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..._plain.strict_json import JsonError, read_json
from ..contracts.shapes import Place, SpecError
from .errors import ConfigError
from .yaml_source import Lines, compose_yaml, lines_of, parse_yaml

if TYPE_CHECKING:
    from yaml.nodes import Node

Format: TypeAlias = Literal["json", "yaml"]

MAX_BYTES = 4 << 20

_FORMATS: dict[str, Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


@dataclass(slots=True, kw_only=True)
class Document:
    """
    A rules file, read.

    Attributes:
        data: What it holds, unchecked.
        name: Its name, for messages; None for rules that were made in Python.
        text: Its text, if its lines are still to be found.
        lines: The line of each value, as far as known.
    """

    data: dict[str, Any]
    name: str | None = None
    text: str | None = None
    lines: Lines = field(default_factory=dict)

    def line_of(self, place: Place) -> int | None:
        """Find the line of a value, or of the nearest thing around it whose line is known."""
        if self.text is not None:
            text, self.text = self.text, None
            self.lines = json_lines(text)
        for end in range(len(place), -1, -1):
            if place[:end] in self.lines:
                return self.lines[place[:end]]
        return None

    def error(self, error: SpecError) -> ConfigError:
        """Say of an error in this document in which file and line it is."""
        return ConfigError(
            error.problem, path=self.name, line=self.line_of(error.place), where=error.where or None
        )


def read_document(path: str | os.PathLike[str]) -> Document:
    """
    Read a rules file.

    Raises:
        ConfigError: If it is missing, too large, not UTF-8, neither JSON nor YAML by its name, or malformed.
    """
    file = Path(path)
    name = os.fspath(path)
    try:
        if not file.exists():
            raise ConfigError(f"no such rules file: {name}")
        _format_of(name)
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read ({(error.strerror or 'error').lower()})", path=name) from error
    return decode_document(data, name=name)


def decode_document(data: bytes, *, name: str) -> Document:
    """
    Read the bytes of a rules file, whose name says how.

    Raises:
        ConfigError: See `read_document`.
    """
    format = _format_of(name)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES >> 20} MiB", path=name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8", path=name, line=data[: error.start].count(b"\n") + 1) from error
    return parse_document(text, format=format, name=name)


def _format_of(name: str) -> Format:
    ending = Path(name).suffix
    format = _FORMATS.get(ending.lower())
    if format is None:
        expected = ", ".join(sorted(_FORMATS))
        raise ConfigError(
            f"unrecognized rules file extension {ending!r}, expected one of {expected}", path=name
        )
    return format


def parse_document(text: str, *, format: Format, name: str | None = None) -> Document:
    """
    Read the text of a rules file.

    Raises:
        ConfigError: If it is malformed, or not a mapping.
    """
    try:
        if format == "json":
            document = Document(data=_parse_json(text), name=name, text=text)
        else:
            data, lines = parse_yaml(text)
            document = Document(data={} if data is None else data, name=name, lines=lines)
    except ConfigError as error:
        raise ConfigError(error.problem, path=name, line=error.line) from error
    if not isinstance(document.data, dict):
        kind = type(document.data).__name__
        raise ConfigError(f"top level must be a mapping, got {kind}", path=name, line=document.line_of(()))
    return document


def json_lines(text: str) -> Lines:
    """
    Find the lines of the values in a JSON text, as far as they can be told.

    JSON is nearly YAML, and the YAML parser knows its lines. Where the two differ there are no lines, which
    costs an error message its line and nothing else.
    """
    import yaml

    for compose in (compose_yaml, _compose_slowly):
        try:
            root = compose(text)
        except (yaml.YAMLError, ConfigError, RecursionError):
            # Each of the two understands some JSON that the other does not.
            continue
        return {} if root is None else lines_of(root)
    return {}


def _compose_slowly(text: str) -> Node | None:
    import yaml

    root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return root


def _parse_json(text: str) -> Any:
    try:
        return read_json(text)
    except JsonError as error:
        if error.repeated is not None:
            problem = f"name {error.repeated!r:.80} appears twice in one object"
            raise ConfigError(problem, line=error.line) from error
        raise ConfigError(f"invalid JSON: {error.reason}", line=error.line) from error
