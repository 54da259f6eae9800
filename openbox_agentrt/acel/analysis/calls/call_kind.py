"""Calls that differ only in the values of their keys, and how their arguments are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ("ALL_ARGUMENTS", "CallKind", "with_values")

ALL_ARGUMENTS = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKind:
    """
    Calls that differ only in the values of their keys.

    Attributes:
        tool: The tool.
        args: Their other arguments, by path.
        slots: The arguments that are keys, each with the group of values that it is of.
        complete: Whether no other argument that a contract reads is missing.
        answers: The answers of conditions that are free, by the names of the arguments that hold them.
        results: Those of the slots that stand for parts of the result, each with its path there.
        told: The other parts of the result that conditions read, by their paths.
    """

    tool: str
    args: tuple[tuple[str, Any], ...]
    slots: tuple[tuple[str, str], ...]
    complete: bool
    answers: tuple[tuple[str, bool], ...] = ()
    results: tuple[tuple[str, str | None], ...] = ()
    told: tuple[tuple[str, Any], ...] = ()


def with_values(kind: CallKind, values: Mapping[str, str]) -> dict[str, Any]:
    """Write the arguments of a call, with these values of its keys by path."""
    args: dict[str, Any] = {}
    in_result = dict(kind.results)
    plain = {path: value for path, value in values.items() if path not in in_result} | dict(kind.args)
    for path, value in plain.items():
        parts = path.split(".")
        nested = len(parts) > 1 and parts[0] not in plain and not any(p == "*" or p.isdigit() for p in parts)
        if path == ALL_ARGUMENTS:
            args["value"] = value
        elif not nested:
            args[path] = value
        else:
            inside = args
            for part in parts[:-1]:
                inside = inside.setdefault(part, {})
            inside[parts[-1]] = value
    return args
