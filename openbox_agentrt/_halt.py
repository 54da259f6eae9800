"""A halt: a person has said that nothing more may start in a run, in a session, or by an agent."""

from __future__ import annotations

from typing import Literal

from ._values import dataclass

HaltKind = Literal["run", "session", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """
    One halt, in force from when it is written down.

    Attributes:
        kind: What it is about.
        value: The id of the run or of the session, or the name of the agent.
        reason: Why.
        by: Who halted it, as they said.
        at: When, in seconds since 1970.
    """

    kind: HaltKind
    value: str
    reason: str
    by: str
    at: float

    @property
    def name(self) -> str:
        """Name what is halted; a later halt of the same replaces this one."""
        return f"{self.kind}:{self.value}"

    @property
    def why(self) -> str:
        """Tell the reason and who gave it, in one line."""
        said = f"{self.reason} (halted by {self.by})" if self.by else self.reason
        return " ".join(said.split())


def halt_of(
    *, run_id: str | None, session_id: str | None, agent: str | None, reason: str, by: str, at: float
) -> Halt:
    """
    Make a halt of one of the three.

    Raises:
        ValueError: It is not exactly one of them, or there is no reason.
    """
    given: dict[HaltKind, str | None] = {"run": run_id, "session": session_id, "agent": agent}
    named = {kind: value for kind, value in given.items() if value}
    if len(named) != 1:
        raise ValueError("a halt is of one run, one session or one agent: name exactly one")
    if not reason.strip():
        raise ValueError("a halt needs a reason")
    kind, value = next(iter(named.items()))
    return Halt(kind=kind, value=value, reason=reason.strip(), by=by, at=at)
