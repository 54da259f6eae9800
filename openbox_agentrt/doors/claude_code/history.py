"""
Read from the log of a hook session which calls are under way, and what became of the others.

This is bookkeeping over the lines and knows no contract, so that the hook after a call needs neither rules
nor engine. The log is the authority; a snapshot only saves reading all of it.

The lines, by their ``event``:

``session``  the first line: which session this is
``rules``    the rules that calls are judged by from here on
``pre``      a call was let through
``post``     it ended: ``ok`` if it did its work, ``ran`` if it may have done something; with what it gave, if
             a contract learns from that (``learns`` in its ``pre``)
``lost``     its end will not be waited for any longer; it may have done something
``ran``      a call was reported as done that was never asked about
``deny``     a call was refused; with why, if a person had halted the session (``halted_by``)
``told``     what these calls broke as they ran is in the evidence
``end``      the session ended; it may be resumed
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from openbox_agentrt._values import dataclass
from openbox_agentrt.doors.claude_code.event import HookEvent
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.claude_code.log import SessionLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SNAPSHOT_AFTER = 64
"""So many lines may follow a snapshot before the next is taken; eight times as many where calls overlap."""

SNAPSHOT_VERSION = 3
"""What a snapshot of this form says of itself."""

MAX_RESULT = 256 * 1024
"""So many characters of JSON may a result have for what it says to be known."""


class OpenCall:
    """
    Remember a call that was let through and whose end was not reported.

    Attributes:
        entry: The line that let it through.
        position: How many lines had been noted when it began; below zero before the snapshot.
    """

    __slots__ = ("entry", "position")

    def __init__(self, entry: Mapping[str, Any], position: int) -> None:
        self.entry = entry
        self.position = position

    @property
    def tool(self) -> str:
        """Name of the tool."""
        tool: str = self.entry["tool"]
        return tool

    @property
    def digest(self) -> str:
        """Stands for the tool and its arguments, see `HookEvent.digest`."""
        digest: str = self.entry["digest"]
        return digest


class Calls:
    """
    Know the calls of a session after some lines of its log.

    Attributes:
        rules: Hash of the rules in force, or None before the first call.
        begun: How many calls were let through so far.
        begun_of: How many calls of each tool began, those included that were never asked about.
        done_of: How many calls of each tool surely succeeded under these rules.
        latest: Time of the latest line. It never goes back.
        noted: How many lines were noted.
        open: Calls under way by key, oldest first.
        ended: Keys of calls whose end was reported.
        refused: Reason by key and digest of calls that were refused.
        halted: Whether a contract has stopped the session.
    """

    __slots__ = (
        "_clock",
        "begun",
        "begun_of",
        "done_of",
        "ended",
        "halted",
        "latest",
        "noted",
        "open",
        "refused",
        "rules",
    )

    def __init__(self, snapshot: Mapping[str, Any] | None = None) -> None:
        taken: Mapping[str, Any] = {} if snapshot is None else snapshot["calls"]
        self.rules: str | None = taken.get("rules")
        self.begun: int = taken.get("begun", 0)
        self.begun_of: dict[str, int] = dict(taken.get("begun_of", {}))
        self.done_of: dict[str, int] = dict(taken.get("done_of", {}))
        self.halted: bool = taken.get("halted", False)
        self.latest: float = taken.get("latest", 0.0)
        # What the clock of the computer said at that line.
        self._clock: float = taken.get("clock", 0.0)
        self.noted = 0
        self.open = {entry["call"]: OpenCall(entry, -age) for entry, age in taken.get("open", ())}
        self.ended: set[str] = set()
        self.refused: dict[tuple[str, str], str] = {}

    def dump(self) -> dict[str, Any]:
        """Give what a snapshot has to know of them."""
        return {
            "rules": self.rules,
            "begun": self.begun,
            "begun_of": self.begun_of,
            "done_of": self.done_of,
            "halted": self.halted,
            "latest": self.latest,
            "clock": self._clock,
            "open": [[call.entry, self.noted - call.position] for call in self.open.values()],
        }

    def at(self, now: float) -> float:
        """
        Give the session's time when the clock says `now`.

        It goes on as the clock does, and stands still while that goes back: a clock that was a year ahead by
        mistake opens nothing when it is right again, and stops nothing either.
        """
        if self.latest == 0.0:
            return now
        return self.latest + max(0.0, now - self._clock)

    def stamp(self, now: float) -> dict[str, float]:
        """Give what a line says of the time."""
        at = self.at(now)
        return {"ts": at} if at == now else {"ts": at, "clock": now}

    def note(self, entry: Mapping[str, Any]) -> None:
        """Take one line into account."""
        self.noted += 1
        if "ts" in entry:
            self.latest = max(self.latest, entry["ts"])
            self._clock = entry.get("clock", entry["ts"])
        match entry["event"]:
            case "rules":
                self.rules = entry["hash"]
                self.done_of = {}
            case "pre":
                self.begun += 1
                _count(self.begun_of, entry["tool"])
                self.open[entry["call"]] = OpenCall(entry, self.noted)
            case "lost":
                self.open.pop(entry["call"], None)
            case "post":
                ended = self.open.pop(entry["call"], None)
                if ended is not None and entry["ok"]:
                    _count(self.done_of, ended.tool)
                self.ended.add(entry["call"])
            case "ran":
                _count(self.begun_of, entry["tool"])
                self.ended.add(entry["call"])
            case "deny":
                self.refused[entry["call"], entry["digest"]] = entry["reason"]
                self.halted = self.halted or entry["halted"]

    def key_for(self, event: HookEvent) -> str:
        """Give the key of a call that begins, or was reported without having begun."""
        return f"n{self.begun}" if event.call_id is None else f"id:{event.call_id}"

    def ended_by(self, event: HookEvent) -> str | None:
        """
        Find the key of the call that an event reports the end of; None if no such call is under way.

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


@dataclass(slots=True)
class History:
    """
    Hold the lines of a session since its snapshot, and what they say of its calls.

    Attributes:
        session_id: The client's session.
        snapshot: Where the lines begin, or None for the beginning.
        lines: The lines.
        end: Where the next line begins.
        calls: What they say.
    """

    session_id: str
    snapshot: Mapping[str, Any] | None
    lines: list[dict[str, Any]]
    end: int
    calls: Calls

    @property
    def is_long(self) -> bool:
        """Tell whether there are enough lines for the next process to begin after them."""
        return len(self.lines) > SNAPSHOT_AFTER

    @property
    def wants_snapshot(self) -> bool:
        """
        Tell whether there are so many lines that the next process should begin after them in any case.

        Some are waited for while a call is under way that has just begun: once it ends, the snapshot may be
        of no use.
        """
        calls, lines = self.calls, len(self.lines)
        if lines <= SNAPSHOT_AFTER or lines > 8 * SNAPSHOT_AFTER:
            return lines > SNAPSHOT_AFTER
        return all(calls.noted - call.position >= SNAPSHOT_AFTER for call in calls.open.values())


def read_history(log: SessionLog, session_id: str, *, whole: bool = False) -> History:
    """
    Read what there is to know about a session.

    Args:
        log: Its log.
        session_id: Its name.
        whole: Read from the beginning, and not from the snapshot.

    Raises:
        HookFault: The log or the snapshot is corrupt.
    """
    snapshot = None if whole else log.read_snapshot()
    try:
        if snapshot is not None and snapshot.get("version") != SNAPSHOT_VERSION:
            # The log says all that it said.
            snapshot = None
        calls = Calls(snapshot)
        lines = log.read(0 if snapshot is None else snapshot["offset"])
        for entry in lines:
            calls.note(entry)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise HookFault(
            f"state file '{log.stem}' holds a line of another form: {error}",
            remedy="move the file away and start a new session",
        ) from error
    return History(session_id, snapshot, lines, log.end, calls)


def end_call(log: SessionLog, event: HookEvent, *, now: float) -> Mapping[str, Any] | None:
    """
    Write down how a call ended. What it means is for the next judgement.

    A call that was never asked about, or that was given up, is written down as one that ran: it is counted,
    whatever the rules say.

    Returns:
        What was reserved for it in the store of the fleet, if anything.

    Raises:
        HookFault: It cannot be written.
    """
    calls = read_history(log, event.session_id).calls
    key = calls.ended_by(event)
    if key is not None:
        line: dict[str, Any] = {"event": "post", "call": key, "ok": event.ok, "ran": event.ran}
        if calls.open[key].tool != event.tool:
            raise HookFault(f"tool_use_id {event.call_id!r:.100} was used by another tool")
        if calls.open[key].digest != event.digest:
            # Another hook has changed the arguments since.
            line["args"] = dict(event.args)
        if event.ok and calls.open[key].entry.get("learns") and _is_kept(event.result):
            line["result"] = event.result
        log.append(line | calls.stamp(now))
        lease: Mapping[str, Any] | None = calls.open[key].entry.get("lease")
        return lease
    key = calls.key_for(event)
    if not event.ran or (event.call_id is not None and key in calls.ended):
        # It never ran, or another hook has reported the same end.
        return None
    outcome = "ok" if event.ok else "failed"
    ran = {"event": "ran", "call": key, "tool": event.tool, "args": dict(event.args), "outcome": outcome}
    log.append(ran | calls.stamp(now))
    return None


def _count(counts: dict[str, int], tool: str) -> None:
    if not tool.isascii():
        # By the name that contracts know it by: some letters are another way to write one of ASCII.
        from openbox_agentrt.acel.match.names import normal_name

        tool = normal_name(tool)
    counts[tool] = counts.get(tool, 0) + 1


def _is_kept(result: Any) -> bool:
    # A result that is too large is learnt nothing from, and whoever needs it is refused.
    return result is not None and len(json.dumps(result)) <= MAX_RESULT
