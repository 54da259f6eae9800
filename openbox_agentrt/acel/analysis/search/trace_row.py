"""Rows of traces that show something, and how they are written for people and as data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...._plain.calendar import Per
from ...contracts.base import HALTED

__all__ = ("RowKind", "TraceRow", "shown_rows")

RowKind: TypeAlias = Literal["call", "finish", "wait", "write", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """
    One thing that happens in a trace.

    Attributes:
        kind: A call, the end of one that was under way, which fails, a time in which nothing happens, an
            entry of the state that code writes, or the end of the session.
        tool: Of a call, the tool.
        args: Of a call, its arguments.
        outcome: Of a call, how it ended: "ok", "failed", or "refused"; "started" while it is under way.
        seconds: Of a time, and of a call that takes some, how long.
        until: Of a time, the period of the calendar and its time zone that it ends.
        entry: Of what is written, the entry and its value.
        result: Of a call that succeeded, what it returned, where that matters.
        by: Of a call that is refused, and of the end, the contracts that object.
    """

    kind: RowKind
    tool: str = ""
    args: dict[str, Any] | None = None
    outcome: str = "ok"
    seconds: float = 0.0
    until: tuple[Per, str] | None = None
    entry: tuple[str, Any] | None = None
    by: tuple[str, ...] = ()
    result: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON data."""
        if self.kind == "wait":
            return {"wait": self.seconds if self.until is None else list(self.until)}
        if self.kind == "write":
            assert self.entry is not None
            return {"state": {self.entry[0]: self.entry[1]}}
        if self.kind == "end":
            return {"end": True, "unmet": list(self.by)}
        if self.kind == "finish":
            return {"tool": self.tool, "args": _json(self.args), "ends": "failed"}
        said: dict[str, Any] = {"tool": self.tool, "args": _json(self.args), "outcome": self.outcome}
        said |= {"lasts": self.seconds} if self.seconds else {}
        said |= {} if self.result is None else {"result": self.result}
        return {**said, **({"by": list(self.by)} if self.by else {})}

    def __str__(self) -> str:
        if self.kind == "wait":
            return f"wait {self.seconds:g} s" if self.until is None else _next(*self.until)
        if self.kind == "write":
            assert self.entry is not None
            return f"code writes {self.entry[0]} = {self.entry[1]!r}"
        if self.kind == "end":
            return "the session ends" + (f", unmet: {', '.join(self.by)}" if self.by else "")
        args = ", ".join(f"{name}={_written(value)}" for name, value in (self.args or {}).items())
        if self.kind == "finish":
            return f"{self.tool}({args}) that was under way fails"
        ended = {"ok": "", "failed": " fails", "started": " is under way"}
        said = ended.get(self.outcome, f" {self.outcome}")
        said += "" if self.result is None else f" gives {_written(self.result)}"
        if self.seconds:
            said += f" {'after' if said else 'takes'} {self.seconds:g} s"
        if HALTED.spec in self.by:
            return f"{self.tool}({args}){said}, since the session is halted"
        return f"{self.tool}({args}){said}" + (f" by {', '.join(self.by)}" if self.by else "")


def shown_rows(rows: Iterable[TraceRow]) -> str:
    """Write a trace in one line."""
    return "; ".join(map(str, rows)) or "(nothing)"


def _next(per: Per, tz: str) -> str:
    return f"wait for the next {per}" + ("" if tz == "UTC" else f" in {tz}")


def _written(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
