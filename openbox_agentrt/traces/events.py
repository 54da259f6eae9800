"""Say in order what a recording tells: a call began or ended, a run was over, the state changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..acel.events import Outcome
from ..acel.match.keys import About

__all__ = (
    "NOT_RECORDED",
    "Began",
    "Ended",
    "Left",
    "Resumed",
    "RunEnded",
    "StateSet",
    "TraceEvent",
    "Unrecorded",
)


class Unrecorded:
    """The value that is known to have been there, and was not recorded. None is a value of its own."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOT_RECORDED"

    def __reduce__(self) -> str:
        return "NOT_RECORDED"


NOT_RECORDED: Final = Unrecorded()


# The two of which there is one for each call are not frozen: making them would take three times as long.
@dataclass(slots=True, kw_only=True, eq=False)
class Began:
    """
    A recorded call began. Each is an object of its own, by which its end refers to it.

    Attributes:
        where: File and line, for people.
        session: The session that it belongs to.
        tool: Name of the tool.
        args: Its arguments, or None where they were not recorded.
        at: When, in seconds since the epoch; None where nobody wrote that down.
        refused: Whether it was refused then, so that it never ran.
        deferred: Arguments that were known only after the call, and what they were taken for.
        about: Whose call it is, and of which run; None where nobody wrote that down.
    """

    where: str
    session: str
    tool: str
    args: Mapping[str, Any] | None
    at: float | None = None
    refused: bool = False
    deferred: Any = ()
    about: About | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Ended:
    """
    A recorded call ended.

    Attributes:
        call: The call.
        outcome: What became of it, see `ToolCallEvent`.
        result: What it returned, or `NOT_RECORDED`.
        at: When, as for `Began`.
        args: The arguments that really ran, if they are not those that were judged.
        measured: Values of what was deferred.
    """

    call: Began
    outcome: Outcome
    result: Any = NOT_RECORDED
    at: float | None = None
    args: Mapping[str, Any] | None = None
    measured: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunEnded:
    """One of the runs that share a session was over."""

    session: str
    run: str
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateSet:
    """Entries of a session's state were written."""

    session: str
    values: Mapping[str, Any]
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resumed:
    """
    A session went on with a memory that came from elsewhere: another process, or a snapshot.

    Attributes:
        session: The session that went on.
        state: Its state; None if nobody knows it.
        at: When, as for `Began`.
        of: The id that it had there as well, if it has one.
        left_by: The session of this recording that it went on from, where that is said.
        mark: What the memory is known by that was left there.
    """

    session: str
    state: Mapping[str, Any] | None
    at: float | None = None
    of: str | None = None
    left_by: str | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Left:
    """The memory of a session was kept for whoever goes on with it, known by a mark."""

    session: str
    mark: str
    at: float | None = None


TraceEvent: TypeAlias = Began | Ended | Left | Resumed | RunEnded | StateSet
