"""
The calls of a hook session, as its log tells them: which are under way, and what became of the others.

This is bookkeeping over the lines and knows no contract, so that the hook after a call needs no rules.

The lines, by their ``event``:

``session``  the first line: which session this is
``rules``    the rules that calls are judged by from here on
``pre``      a call was let through
``post``     it ended: ``ok`` if it did its work, ``ran`` if it may have done something
``lost``     its end will not be waited for any longer; it may have done something
``ran``      a call was reported as done that was never asked about
``deny``     a call was refused
``end``      the session ended; it may be resumed
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openbox_agentrt.doors.claude_code.event import HookEvent

__all__ = ("Calls", "OpenCall")


@dataclass(frozen=True, slots=True)
class OpenCall:
    """
    A call that was let through and whose end was not reported.

    Attributes:
        tool: Name of the tool.
        digest: See `HookEvent.digest`.
        position: How many lines had been noted when it began.
    """

    tool: str
    digest: str
    position: int


@dataclass(slots=True)
class Calls:
    """
    What is known of the calls after some lines of the log.

    Attributes:
        rules: Hash of the rules in force, or None before the first call.
        begun: How many calls were let through so far.
        latest: Time of the latest line.
        noted: How many lines were noted.
        open: Calls under way by key, oldest first.
        ended: Keys of calls whose end was reported.
        refused: Reason by key and digest of calls that were refused.
    """

    rules: str | None = None
    begun: int = 0
    latest: float = 0.0
    noted: int = 0
    open: dict[str, OpenCall] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)

    def note(self, entry: Mapping[str, Any]) -> None:
        """Take one line into account."""
        self.noted += 1
        self.latest = max(self.latest, entry.get("ts", 0.0))
        match entry["event"]:
            case "rules":
                self.rules = entry["hash"]
            case "pre":
                self.begun += 1
                self.open[entry["call"]] = OpenCall(entry["tool"], entry["digest"], self.noted)
            case "lost":
                self.open.pop(entry["call"], None)
            case "post":
                self.open.pop(entry["call"], None)
                self.ended.add(entry["call"])
            case "ran":
                self.ended.add(entry["call"])
            case "deny":
                self.refused[entry["call"], entry["digest"]] = entry["reason"]

    def key_for(self, event: HookEvent) -> str:
        """The key of a call that begins, or was reported without having begun."""
        return f"n{self.begun}" if event.call_id is None else f"id:{event.call_id}"

    def ended_by(self, event: HookEvent) -> str | None:
        """
        The key of the call that an event reports the end of, or None if no such call is under way.

        A client that sends no ids reports the oldest of the calls that look the same.
        """
        if event.call_id is not None:
            key = f"id:{event.call_id}"
            return key if key in self.open else None
        digest = event.digest
        return next(
            (key for key, call in self.open.items() if not key.startswith("id:") and call.digest == digest),
            None,
        )
