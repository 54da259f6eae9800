"""The names of the tools that there are, from the lists that other programs make of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._plain.strict_json import JsonError, read_json
from .running import InputError


def read_tool_names(name: str) -> tuple[str, ...]:
    """
    Read names of tools: an MCP list or its answer, an OpenAI tools array, a list of names, or a name a line.

    Raises:
        InputError: It is none of these, or holds no tool.
    """
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name!r} is not UTF-8") from error
    names = tuple(dict.fromkeys(_names(text, name)))
    if not names:
        raise InputError(f"{name!r} holds no tools")
    return names


def _names(text: str, name: str) -> Iterator[str]:
    if not text.lstrip().startswith(("{", "[")):
        yield from (line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] != "#")
        return
    try:
        data = read_json(text)
    except JsonError as error:
        raise InputError(f"{name!r} is not JSON: {error.reason}") from error
    for position, tool in enumerate(_listed(data, name)):
        found = tool if isinstance(tool, str) else _name_of(tool)
        if not isinstance(found, str) or not found:
            raise InputError(f"{name!r} entry {position + 1} has no name of a tool")
        yield found


def _listed(data: Any, name: str) -> list[Any]:
    for key in ("result", "tools"):
        if isinstance(data, dict) and key in data:
            data = data[key]
    if not isinstance(data, list):
        raise InputError(f"{name!r} must hold a list of tools, or one under 'tools'")
    return data


def _name_of(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")
