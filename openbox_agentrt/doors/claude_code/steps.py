"""
The steps of a hook session, written into its evidence when it ends.

Each event is a process of its own, and none of them holds a session that could be written down step by step.
The log of the session says in which order everything came, so the one that ends it goes through the log once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from openbox_agentrt.acel.contracts.base import PersonsHalt
from openbox_agentrt.acel.engine.call.lifecycle import conclude
from openbox_agentrt.acel.engine.journal.journaled_store import in_log_order
from openbox_agentrt.acel.events import ToolCallEvent
from openbox_agentrt.acel.session import Session, engine_of
from openbox_agentrt.doors.claude_code.fleet_answers import AnsweringStore
from openbox_agentrt.doors.claude_code.restored_session import TRACE, outcome_of

if TYPE_CHECKING:
    from openbox_agentrt.acel import Reservation
    from openbox_agentrt.acel.violations import Violation
    from openbox_agentrt.doors.claude_code.history import History
    from openbox_agentrt.doors.claude_code.rules import HookRules
    from openbox_agentrt.evidence import EvidenceFile


class _Steps:
    """Pass steps on. The violations were recorded when they happened."""

    records_steps = True

    def __init__(self, evidence: EvidenceFile, now: Callable[[], float]) -> None:
        self._evidence = evidence
        self._now = now
        self.redacts = evidence.redacts
        self.record_rules = evidence.record_rules
        self.warn_of_hidden = evidence.warn_of_hidden

    def record_step(self, step: Mapping[str, Any]) -> None:
        """Say also when it was: the line is written later."""
        self._evidence.record_step({**step, "time": datetime.fromtimestamp(self._now(), UTC).isoformat()})

    def record(self, violation: Violation) -> None:
        """Leave it out."""


def record_steps(history: History, rules: HookRules, evidence: EvidenceFile) -> str | None:
    """
    Write the steps of a session that ends.

    Args:
        history: All of its lines, from the beginning.
        rules: What it was judged by.
        evidence: Where they go.

    Returns:
        Why they cannot be written; None if they were.
    """
    lines = history.lines
    if any(entry["event"] == "end" for entry in lines):
        return "the session had ended before, and the steps since then are not recorded"
    if any(entry["event"] == "rules" and entry["hash"] != rules.hash for entry in lines):
        return "the rules have changed since the session began, and its steps are not recorded"
    _Writer(history.session_id, rules, evidence).write(lines)
    return None


class _Writer:
    """Go through the lines of a log with a session that writes down each step."""

    def __init__(self, session_id: str, rules: HookRules, evidence: EvidenceFile) -> None:
        self._now = 0.0
        self._store = AnsweringStore()
        self._open: dict[str, Reservation] = {}
        self._halted_by: str | None = None
        self._session = Session(
            rules.state,
            contracts=tuple(in_log_order(rules.contracts)),
            fleet=self._store,
            clock=lambda: self._now,
            session_id=session_id,
            evidence=_Steps(evidence, lambda: self._now),
            max_trace=TRACE,
        )

    def write(self, lines: list[dict[str, Any]]) -> None:
        for entry in lines:
            self._now = max(self._now, entry.get("ts", 0.0))
            self._apply(entry)
        for reservation in self._open.values():
            conclude(reservation, outcome="unknown")
        self._session.end_session()

    def _halt(self, why: str | None) -> None:
        """Note that a person had halted the session when a call was asked for, or had lifted that."""
        if why == self._halted_by:
            return
        store = engine_of(self._session).store
        if self._halted_by is not None:
            store.lift()
        if why is not None:
            store.halt(PersonsHalt(why))
        self._halted_by = why

    def _apply(self, entry: Mapping[str, Any]) -> None:
        session = self._session
        self._store.line = entry
        if entry["event"] in ("pre", "deny"):
            self._halt(entry.get("halted_by"))
        match entry["event"]:
            case "pre":
                self._open[entry["call"]] = session.reserve(entry["tool"], entry["args"], started=True)
            case "deny" if entry["args"] is not None and session.would(entry["tool"], entry["args"]):
                session.reserve(entry["tool"], entry["args"], started=True)
            case "post" | "lost" if entry["call"] in self._open:
                outcome = "unknown" if entry["event"] == "lost" else outcome_of(entry)
                reservation = self._open.pop(entry["call"])
                conclude(reservation, entry.get("result"), outcome=outcome, args=entry.get("args"))
            case "ran":
                args, outcome = entry["args"], entry["outcome"]
                session.replay_prefix([ToolCallEvent(entry["tool"], args, None, self._now, outcome=outcome)])
