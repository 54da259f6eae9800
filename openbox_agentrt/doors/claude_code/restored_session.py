"""
A contract session that has seen what the log of a hook session holds.

A snapshot takes calls that are under way for ones of unknown outcome, and the two are the same to all others:
they count where they limit, and allow nothing. What is needed to settle them is kept beside it. Where a
contract remembers more of one than that, and it has ended, more is known than the snapshot says, and the log
is read from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openbox_agentrt.acel.engine.call.lifecycle import conclude
from openbox_agentrt.acel.events import Outcome, ToolCallEvent
from openbox_agentrt.acel.memory.clock import SetClock
from openbox_agentrt.acel.session import Session, engine_of
from openbox_agentrt.acel.session.calls import halt_again
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.claude_code.history import SNAPSHOT_VERSION, History

if TYPE_CHECKING:
    from openbox_agentrt.acel import Reservation, Violation
    from openbox_agentrt.doors.claude_code.rules import HookRules

TRACE = 20
"""How many calls a violation in the evidence shows."""


class StaleSnapshotError(Exception):
    """
    The snapshot is of no use: of another version, of other rules, or a call that it knows has ended since.

    The whole log says everything that it did.
    """


class _Findings:
    """Keeps the violations of the event at hand."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def record(self, violation: Violation) -> None:
        self.violations.append(violation)


class Replica:
    """
    Bring a contract session to where the log ends.

    Attributes:
        session: The session.
        late: What calls broke as they ran, which nobody could refuse any more and is not in the evidence yet.
        late_calls: Keys of these calls.
        snapshot: To be written in place of the present one, or None if that is recent enough.
    """

    def __init__(self, history: History, rules: HookRules) -> None:
        """
        Bring a session to where a history ends.

        Args:
            history: What happened. What happened under other rules happened all the same, whatever these
                rules would have said.
            rules: What is judged by.

        Raises:
            HookFault: The rules say now that something that they let through could not have happened.
            StaleSnapshotError: See there.
        """
        self._history = history
        self._clock = SetClock()
        self._findings = _Findings()
        self._open: dict[str, Reservation | None] = {}
        self._ends = {entry["call"]: entry for entry in history.lines if entry["event"] == "post"}
        self._unended: set[str] = set()
        self._told = {key for entry in history.lines if entry["event"] == "told" for key in entry["calls"]}
        self.late: list[Violation] = []
        self.late_calls: list[str] = []
        self.snapshot: dict[str, Any] | None = None
        self.session = self._start(rules)
        self._go_on_with_calls()
        # What the log holds is nobody's to change, and most hooks end without a question about the trace.
        engine_of(self.session).rows.put_off()
        ours_from = _first_line_under(rules.hash, history)
        self._clock.now = 0.0 if history.snapshot is None else history.snapshot["calls"]["latest"]
        for index, entry in enumerate(history.lines):
            self._findings.violations.clear()
            self._apply(entry, ours=index >= ours_from)
            if entry["event"] in ("post", "ran") and index >= ours_from:
                self._keep_late(entry["call"])
        if history.is_long:
            under_way = self._under_way()
            if history.wants_snapshot or None not in under_way.values():
                self.snapshot = self._take(rules, under_way)
        self._findings.violations.clear()

    def _keep_late(self, key: str) -> None:
        found = self._findings.violations
        if found and key not in self._told:
            self.late += found
            self.late_calls.append(key)

    def at(self, now: float) -> None:
        """Let it be the session's time when the clock says `now`."""
        self._clock.now = self._history.calls.at(now)

    @property
    def keeper(self) -> _Findings:
        """Give what keeps the violations of the event at hand."""
        return self._findings

    @property
    def found(self) -> list[Violation]:
        """List the violations since the log was replayed."""
        return self._findings.violations

    def _start(self, rules: HookRules) -> Session:
        options: dict[str, Any] = {
            "clock": self._clock,
            "evidence": self._findings,
            "max_trace": TRACE,
            "contracts": rules.local,
        }
        if self._history.snapshot is None:
            return Session(rules.state, session_id=self._history.session_id, **options)
        # Loaded here: a session that has just begun has none.
        from openbox_agentrt.acel.engine.snapshot.snapshot import SnapshotError

        try:
            return Session.restore(self._history.snapshot["session"], **options)
        except (SnapshotError, LookupError, TypeError) as error:
            raise StaleSnapshotError(str(error)) from error

    def _go_on_with_calls(self) -> None:
        """Take up the calls that the snapshot has under way, as far as it has what that needs."""
        snapshot = self._history.snapshot
        if snapshot is None:
            return
        under_way = snapshot.get("under_way", {})
        for entry, _ in snapshot["calls"]["open"]:
            kept = under_way.get(entry["call"])
            if not kept:
                self._unended.add(entry["call"])
                continue
            # Loaded here: most hooks begin with no call under way, and take no snapshot.
            from openbox_agentrt.acel.engine.snapshot.calls_under_way import resumed_call

            try:
                call = resumed_call(engine_of(self.session), entry["tool"], entry["args"], kept)
            except (LookupError, TypeError, ValueError) as error:
                raise StaleSnapshotError(str(error)) from error
            self._open[entry["call"]] = call

    def _under_way(self) -> dict[str, dict[str, Any] | None]:
        """Give what is needed to settle each call under way; None for one of which that is not known."""
        from openbox_agentrt.acel.engine.snapshot.calls_under_way import kept_call

        calls = {key: self._open.get(key) for key in self._history.calls.open}
        return {key: None if call is None else kept_call(call) for key, call in calls.items()}

    def _apply(self, entry: Mapping[str, Any], *, ours: bool) -> None:
        self._clock.now = max(self._clock.now, entry.get("ts", 0.0))
        match entry["event"]:
            case "pre":
                self._begin(entry, ours)
            case "post" if entry["call"] in self._unended:
                raise StaleSnapshotError
            case "post" | "lost":
                self._end(entry)
            case "ran":
                self._happened(entry, entry["outcome"])
            case "deny" if entry["halted"] and ours:
                halt_again(self.session)

    def _begin(self, entry: Mapping[str, Any], ours: bool) -> None:
        reservation = self.session.reserve(entry["tool"], entry["args"])
        if reservation.allowed:
            self._open[entry["call"]] = reservation
        elif ours:
            raise HookFault(
                f"the log does not replay: the call to {entry['tool']!r:.100} was let through before",
                remedy="move the log away and start a new session",
            )
        else:
            end = self._ends.get(entry["call"])
            outcome = "unknown" if end is None else outcome_of(end)
            self._happened(entry, outcome, None if end is None else end.get("result"))
            self._open[entry["call"]] = None

    def _end(self, entry: Mapping[str, Any]) -> None:
        reservation = self._open.pop(entry["call"], None)
        if reservation is None:
            return
        outcome: Outcome = "unknown" if entry["event"] == "lost" else outcome_of(entry)
        conclude(reservation, entry.get("result"), outcome=outcome, args=entry.get("args"))

    def _happened(self, entry: Mapping[str, Any], outcome: Outcome, result: Any = None) -> None:
        event = ToolCallEvent(entry["tool"], entry["args"], result, self._clock.now, outcome=outcome)
        self.session.replay_prefix([event])

    def _take(self, rules: HookRules, under_way: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
        calls = self._history.calls
        # The line that says by which rules the session goes on is written next, unless the process dies.
        by_these = {} if calls.rules == rules.hash else {"rules": rules.hash, "done_of": {}}
        return {
            "version": SNAPSHOT_VERSION,
            "offset": self._history.end,
            "calls": calls.dump() | by_these,
            "session": self.session.snapshot(),
            "under_way": under_way,
        }


def _first_line_under(rules: str, history: History) -> int:
    if history.calls.rules not in (None, rules):
        return len(history.lines)
    changes = [index for index, entry in enumerate(history.lines) if entry["event"] == "rules"]
    return changes[-1] if changes else 0


def outcome_of(entry: Mapping[str, Any]) -> Outcome:
    """Tell what became of a call, by the line of its end."""
    if entry["ok"]:
        return "ok"
    return "failed" if entry["ran"] else "aborted"
