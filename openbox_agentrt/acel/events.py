"""One recorded tool call, as a trace holds it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from .._picklable import PicklableError
from .._values import dataclass, field
from .wording import shown

USER_PROMPT = "user_prompt"
ASSISTANT_TEXT = "assistant_text"
"""What a model said, beside calls or alone. It is an event where a contract names it."""

RUN_ENDED = "run_ended"
LIFECYCLE = ("run_started", RUN_ENDED, USER_PROMPT, "llm_call", ASSISTANT_TEXT)
"""The events of a governed run that are no tools, and are known to every session."""

Outcome = Literal["ok", "failed", "aborted", "unknown"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)


class TraceError(PicklableError, ValueError):
    """
    A row of a recorded trace cannot be read. Nothing of that row was judged.

    Attributes:
        row: Position of the row in the trace, counting from 1, where known.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        self.row = row
        self.problem = message
        super().__init__(message if row is None else f"row {row}: {message}")


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """
    One call that a recorded trace holds.

    Attributes:
        tool: Name of the tool.
        args: Arguments of the call.
        result: What the tool returned.
        ts: When it happened, in seconds since the epoch. Replay uses this time and no clock.
        outcome: "ok" ran; "failed" ran and raised; "aborted" never ran; "unknown" nobody saw it end.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    ts: float = field(default_factory=time.time)
    outcome: Outcome = field(default="ok", kw_only=True)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ToolCallEvent:
        """
        Read one row, such as ``{"tool": "pay", "args": {"amount": 5}, "ts": 1700000000.0}``.

        A row with an ``error`` is of a call that failed.

        Raises:
            TraceError: The row is not a mapping, or a field has the wrong type.
        """
        row = _own(record)
        stamp = row.get("ts")
        return cls(
            tool=read_tool(row),
            args=read_args(row),
            result=row.get("result"),
            ts=time.time() if stamp is None else read_stamp(stamp),
            outcome=read_outcome(row),
        )


def _own(record: object) -> dict[Any, Any]:
    if not isinstance(record, Mapping):
        raise TraceError(f"expected a mapping, got {type(record).__name__}")
    try:
        return dict(record)
    except Exception as error:
        # The mapping's own code raised.
        raise TraceError(f"a mapping that cannot be read, it raised {type(error).__name__}") from error


def read_tool(row: Mapping[Any, Any]) -> str:
    """
    Read whose call a row is.

    Raises:
        TraceError: It names no tool.
    """
    tool = row.get("tool")
    if not isinstance(tool, str):
        raise TraceError(f"'tool' must be text, got {shown(tool)}" if "tool" in row else "'tool' is missing")
    return tool


def read_args(row: Mapping[Any, Any]) -> Mapping[str, Any]:
    """
    Read the arguments of a row, of which a call may have none.

    Raises:
        TraceError: They are no mapping.
    """
    args = row.get("args")
    if args is None:
        return {}
    if type(args) is not dict and not isinstance(args, Mapping):
        raise TraceError(f"'args' must be a mapping, got {type(args).__name__}")
    return args


def read_outcome(row: Mapping[Any, Any]) -> Outcome:
    """
    Read what became of the call of a row; one with an ``error`` has failed.

    Raises:
        TraceError: It is no outcome.
    """
    failed = row.get("error") is not None and row["error"] is not False
    outcome = row.get("outcome", "failed" if failed else "ok")
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise TraceError(f"'outcome' must be one of {', '.join(OUTCOMES)}, got {shown(outcome)}")
    if failed and outcome == "ok":
        raise TraceError("a row with an 'error' cannot have the outcome 'ok'")
    return cast("Outcome", outcome)


def read_stamp(value: object) -> float:
    """
    Read a recorded time as a finite float.

    Raises:
        TraceError: It is not a number, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TraceError(f"'ts' must be a number, got {shown(value)}")
    try:
        stamp = float(value)
    except OverflowError:
        stamp = math.inf
    if not math.isfinite(stamp):
        raise TraceError(f"'ts' must be finite, got {stamp!r}")
    return stamp
