"""
Calls, put together from what a log says about each: who asked for what, who decided, and what became of it.

A log with steps has every call; one without has those that were refused, and decisions. Nothing is judged
here: what stands in a log is told, and whether it can be trusted is for `verify_file` to say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from .reading import Entry

CallOutcome = Literal["ok", "failed", "withheld", "aborted", "did not run", "unknown"]
"""What may have become of a call."""

_OUTCOMES: Final = {"commit": "ok", "fail": "failed", "abort": "did not run", "lose": "unknown"}
_WORK_OUTCOMES: Final = {"ran": "ok", "aborted": "did not run"}
_HAS_RUN: Final = frozenset(("ok", "failed", "withheld", "aborted", "unknown"))
_NO_CALLS: Final = frozenset(("run_started", "run_ended", "session_ended"))
REFUSED: Final = frozenset(("refused", "block", "halt"))


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """
    One call, as a log tells it.

    Attributes:
        file: The log.
        number: Number of the entry with which it began.
        time: When it was asked for.
        session: The session, if it has a name.
        agent: The agent, if a decision says so.
        subject: What it is about, if a decision says so.
        tool: The tool, or another event.
        args: Its arguments, as far as they may be seen; those that ran, once it ran.
        verdict: "allowed", "refused", "would refuse", or the word of the decision.
        by: Who decided: "contracts", the "session" itself, "core", a person, or why nobody was asked.
        contracts: The contracts that it broke.
        why: What would have made it possible, or the reason.
        outcome: "ok", "failed", "withheld" (it ran, and its result was not handed on), "aborted" (it had
            begun), "did not run" or "unknown"; None where the log does not say.
        approver: Who approved or rejected it.
        note: What that person wrote.
    """

    file: str
    number: int
    time: str
    session: str | None
    tool: str
    agent: str | None = None
    subject: Mapping[str, Any] | None = None
    args: Any = None
    verdict: str = "allowed"
    by: str | None = None
    contracts: tuple[str, ...] = ()
    why: str | None = None
    outcome: str | None = None
    approver: str | None = None
    note: str | None = None

    @property
    def refused(self) -> bool:
        """True if it was not let through."""
        return self.verdict in REFUSED

    def to_dict(self) -> dict[str, Any]:
        """The call as JSON data."""
        return {**asdict(self), "contracts": list(self.contracts)}


@dataclass(slots=True)
class _Reader:
    """Keep what is known while a log is read."""

    calls: list[CallRecord] = field(default_factory=list)
    texts: dict[tuple[str, Any], list[Any]] = field(default_factory=dict)
    rules_of: dict[tuple[str, str], Any] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    latest: dict[tuple[str, str | None], str] = field(default_factory=dict)
    told: list[CallRecord] = field(default_factory=list)
    of_session: set[str] = field(default_factory=set)
    by_activity: dict[tuple[str, Any, Any], CallRecord] = field(default_factory=dict)
    by_step: dict[tuple[str, str | None, Any], CallRecord] = field(default_factory=dict)

    def take(self, file: str, entry: Entry) -> None:
        data = entry.data
        if entry.type == "rules":
            self.texts[file, data.get("hash")] = data.get("texts", [])
        elif entry.type == "step":
            self._step(file, entry, data)
        elif entry.type == "violation":
            self._violation(file, entry, data)
        elif entry.type == "decision":
            self._decision(file, entry, data)
        elif entry.type == "outcome":
            self._outcome(file, entry)

    def _step(self, file: str, entry: Entry, data: Mapping[str, Any]) -> None:
        run, event = str(data.get("run")), data.get("e")
        if event == "start":
            self.rules_of[file, run] = data.get("rules")
            # A session may have a name of its own in the log of another, or of none.
            name = entry.text("session") or entry.session_id
            self.latest[file, entry.session_id] = self.latest[file, name] = run
            if name is not None:
                self.names[file, run] = name
        elif event == "reserve":
            call = self._new(file, entry, entry.text("tool") or "?")
            call.args = data.get("args")
            call.session = self.names.get((file, run), call.session)
            call.verdict = "allowed" if data.get("allowed") else "refused"
            call.contracts = self._broken(file, run, data)
            call.by = self._who(call) if call.refused or call.contracts else None
            if call.refused:
                call.outcome = "did not run"
            if "time" in data:
                self._tell_once(call, entry.text("time") or call.time)
            self.by_step[file, run, data.get("step")] = call
        elif event in ("fleet", "recheck"):
            self._judged_again(file, run, data)
        elif event in _OUTCOMES:
            known = self.by_step.get((file, run, data.get("step")))
            if known is not None:
                known.outcome = _OUTCOMES[event]
                known.args = data.get("final", data.get("args", known.args))

    def _judged_again(self, file: str, run: str, data: Mapping[str, Any]) -> None:
        """Take note of what the store of the fleet, or a second look, said of a call that was let through."""
        call = self.by_step.get((file, run, data.get("step")))
        if call is None:
            return
        broken = [spec for spec in self._broken(file, run, data) if spec not in call.contracts]
        call.contracts += tuple(broken)
        call.by = self._who(call) if call.contracts else call.by
        if not data.get("allowed"):
            call.verdict, call.outcome = "refused", "did not run"
        if broken and "time" in data:
            self._tell_once(call, call.time)

    def _tell_once(self, call: CallRecord, time: str) -> None:
        """Put a call that is written down afterwards in the place of what was said of it when it happened."""
        call.time = time
        for known in self.told:
            same = (known.file, known.session, known.tool) == (call.file, call.session, call.tool)
            if same and not set(known.contracts).isdisjoint(call.contracts):
                call.why = known.why
                self.told.remove(known)
                self.calls = [each for each in self.calls if each is not known]
                return

    def _who(self, call: CallRecord) -> str:
        """Name who refused or watched a call: the session itself where it broke no contract."""
        return "contracts" if set(call.contracts) - self.of_session or not call.contracts else "session"

    def _broken(self, file: str, run: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        texts = self.texts.get((file, self.rules_of.get((file, run))), [])
        return tuple(
            str(texts[name]) if isinstance(name, int) and name < len(texts) else str(name)
            for name in data.get("broken", ())
        )

    def _violation(self, file: str, entry: Entry, data: Mapping[str, Any]) -> None:
        tool, spec = entry.text("tool") or "?", entry.text("spec") or "?"
        call = self._known(file, entry, data.get("step"), tool)
        # A call that was refused unread has no step of its own, and broke one thing that the session itself
        # asks for; and no call breaks the same twice.
        unread = data.get("step") == 0 and data.get("kind") == "session"
        if call is None or unread or (data.get("step") == 0 and spec in call.contracts):
            call = self._new(file, entry, tool)
            call.args = data.get("args")
            call.verdict = "would refuse" if data.get("mode") == "shadow" else "refused"
            ran = call.verdict == "would refuse" or data.get("kind") == "postcondition"
            call.outcome = None if ran else "did not run"
            run = self.latest.get((file, entry.session_id))
            self.by_step[file, run, (data.get("step"), tool)] = call
            self.told.append(call)
        if spec not in call.contracts:
            call.contracts += (spec,)
        if data.get("kind") == "session":
            self.of_session.add(spec)
        if call.by in (None, "contracts"):
            call.by = self._who(call)
        unblock = entry.text("needs") or entry.text("remaining")
        call.why = call.why or (f"needs {unblock}" if data.get("needs") else unblock)

    def _decision(self, file: str, entry: Entry, data: Mapping[str, Any]) -> None:
        event = entry.text("event") or "?"
        call = self._known(file, entry, data.get("step"), event)
        if call is None:
            row = data.get("activity_id")
            call = self.by_activity.get((file, data.get("run_id"), row)) if row is not None else None
        if call is None:
            call = self._new(file, entry, event)
        call.subject = data.get("subject", call.subject)
        call.agent = entry.text("agent") or call.agent
        call.verdict = entry.text("verdict") or call.verdict
        call.by = entry.text("source") or call.by
        call.why = entry.text("reason") or call.why
        call.approver = entry.text("decided_by") or call.approver
        call.note = entry.text("approval_note") or call.note
        approval = entry.text("approval")
        if approval is not None:
            call.by = f"person ({approval})"
        if call.refused and call.outcome not in _HAS_RUN:
            call.outcome = "did not run"
        self.by_activity[file, data.get("run_id"), data.get("activity_id")] = call

    def _outcome(self, file: str, entry: Entry) -> None:
        data = entry.data
        call = self.by_activity.get((file, data.get("run_id"), data.get("activity_id")))
        outcome = entry.text("outcome")
        if call is None or outcome is None:
            return
        call.outcome = _WORK_OUTCOMES.get(outcome, outcome)
        if outcome == "aborted" and data.get("began"):
            call.outcome = "aborted"

    def _known(self, file: str, entry: Entry, step: Any, tool: str) -> CallRecord | None:
        run = self.latest.get((file, entry.session_id))
        return self.by_step.get((file, run, step)) or self.by_step.get((file, run, (step, tool)))

    def _new(self, file: str, entry: Entry, tool: str) -> CallRecord:
        call = CallRecord(
            file=file, number=entry.number, time=entry.time, session=entry.session_id, tool=tool
        )
        if tool not in _NO_CALLS:
            self.calls.append(call)
        return call


def calls_in(entries: Iterable[tuple[str, Entry]]) -> list[CallRecord]:
    """
    Put the calls of logs together, in the order in which they were asked for.

    Args:
        entries: Entries with the names of their logs, see `merged_entries`.
    """
    reader = _Reader()
    for file, entry in entries:
        reader.take(file, entry)
    return reader.calls
