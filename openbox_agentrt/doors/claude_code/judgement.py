"""
The judgement of a hook session: over a call that is about to run, and over what is owed at the end.

Everything here runs under the lock of the session's log. A call is written down before it is answered, so
that of any number of processes that judge at once, each sees the calls that the others let through.
"""

from __future__ import annotations

from openbox_agentrt._values import dataclass
from openbox_agentrt.doors.claude_code.event import HookEvent
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.claude_code.history import History, read_history
from openbox_agentrt.doors.claude_code.log import SessionLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from openbox_agentrt.acel import Refusal, Violation
    from openbox_agentrt.doors.claude_code.history import Calls
    from openbox_agentrt.doors.claude_code.restored_session import Replica
    from openbox_agentrt.doors.claude_code.rules import HookRules

    OnRulesChange = Literal["deny", "replay"]

LOST_AFTER = 512
"""
How many lines a call may be under way for.

The end of a call that the user did not permit is not always reported, and each later process would go on
waiting for it. It stays counted.
"""


@dataclass(slots=True, kw_only=True)
class Ruling:
    """
    Say what was decided about a call.

    Attributes:
        reason: Why it is refused, in one line; None if it may run.
        violations: What it breaks, contracts that only watch included.
    """

    reason: str | None = None
    violations: tuple[Violation, ...] = ()


def begin_call(
    log: SessionLog,
    event: HookEvent,
    rules: HookRules,
    *,
    now: float,
    on_rules_change: OnRulesChange,
    fleet: str | None = None,
    keeps_refused: bool = False,
) -> Ruling:
    """
    Judge a call that is about to run, and write down what was decided.

    The same event asked twice, as it is when a hook is set in two files, is one call.

    Args:
        log: The log of the session.
        event: The call.
        rules: What is judged by.
        now: The time.
        on_rules_change: What to do if the rules are not those that the session began under.
        fleet: URL of the store that contracts with scope "fleet" count in.
        keeps_refused: Whether the log keeps the arguments of a call that is refused.

    Raises:
        HookFault: It cannot be judged. Nothing was let through.
    """
    history = read_history(log, event.session_id)
    calls = history.calls
    key = calls.key_for(event)
    asked_before = _asked_before(calls, key, event)
    if asked_before is not None:
        return asked_before
    _lose_forgotten(log, history)
    halted_by = _halted(event, fleet)
    if halted_by is None and _is_clear(history, event, rules):
        stamp = calls.stamp(now)
        if calls.rules is None:
            log.append({"event": "rules", "hash": rules.hash, **stamp})
        log.append(_admitted(key, event, stamp))
        return Ruling()
    replica = _replica(log, history, rules, on_rules_change)
    replica.at(now)
    stamp = calls.stamp(now)
    if halted_by is not None:
        replica.session.halt(reason=halted_by)
    reservation = replica.session.reserve(event.tool, event.args)
    _tell_late(log, replica)
    if replica.snapshot is not None:
        log.write_snapshot(replica.snapshot)
    if calls.rules != rules.hash:
        log.append({"event": "rules", "hash": rules.hash, **stamp})
    line = _admitted(key, event, stamp)
    if reservation.plan.learns:
        # So that the hook after the call, which knows no rules, keeps what it gives.
        line["learns"] = True
    if reservation.allowed and rules.of_fleet:
        from openbox_agentrt.doors.claude_code.fleet import reserve_in_fleet

        step = reservation.step
        reservation, told = reserve_in_fleet(rules.of_fleet, event, fleet, replica.keeper, step=step)
        line |= told
    ruling = Ruling(violations=(*replica.late, *replica.found))
    if reservation.refusal is not None:
        line |= _denied(reservation.refusal, halted_by, is_closed=replica.session.closed is not None)
        line["args"] = line["args"] if keeps_refused else None
        ruling.reason = line["reason"]
    log.append(line)
    return ruling


def _asked_before(calls: Calls, key: str, event: HookEvent) -> Ruling | None:
    """Find what was decided about the very same call, if it was asked about before."""
    if event.call_id is None:
        return None
    known = calls.open.get(key)
    if known is not None and known.digest == event.digest:
        return Ruling()
    if (key, event.digest) in calls.refused:
        return Ruling(reason=calls.refused[key, event.digest])
    if known is not None or key in calls.ended:
        raise HookFault(f"tool_use_id {event.call_id!r:.100} was used by another call")
    return None


def _denied(refusal: Refusal, halted_by: str | None, *, is_closed: bool) -> dict[str, Any]:
    # A contract of the fleet that halts, halts this session. What a person has halted is asked each time.
    halts = any(broken.on_violation == "halt" for broken in refusal.broken)
    said: dict[str, Any] = {"event": "deny", "reason": _reason(refusal)}
    said["halted"] = halts or (is_closed and halted_by is None)
    return said if halted_by is None else {**said, "halted_by": halted_by}


def unmet_obligations(
    log: SessionLog,
    event: HookEvent,
    rules: HookRules,
    *,
    now: float,
    on_rules_change: OnRulesChange,
    final: bool,
) -> tuple[list[Violation], list[Violation]]:
    """
    List what the session still owes, and what its calls broke as they ran that is not in the evidence yet.

    Args:
        log: Its log.
        event: The event that ends it.
        rules: What is judged by.
        now: The time.
        on_rules_change: What to do if the rules are not those that it began under.
        final: It ends now, and this is written down. Calls under way will not be waited for.

    Raises:
        HookFault: It cannot be told.
    """
    history = read_history(log, event.session_id)
    replica = _replica(log, history, rules, on_rules_change)
    replica.at(now)
    violations = replica.session.end_session()
    stamp = history.calls.stamp(now)
    if final:
        _tell_late(log, replica)
        for key in history.calls.open:
            log.append({"event": "lost", "call": key, **stamp})
        log.append({"event": "end", "unmet": [violation.spec for violation in violations], **stamp})
    return violations, replica.late


def _tell_late(log: SessionLog, replica: Replica) -> None:
    """Write down what goes into the evidence now, so that it goes there once."""
    if replica.late_calls:
        log.append({"event": "told", "calls": replica.late_calls})


def _halted(event: HookEvent, fleet: str | None) -> str | None:
    """Say why a person has halted the session, as far as there is a store to say so."""
    if fleet is None:
        return None
    from openbox_agentrt.doors.claude_code.fleet import halted_in_fleet

    return halted_in_fleet(fleet, event.session_id)


def _is_clear(history: History, event: HookEvent, rules: HookRules) -> bool:
    """Tell whether it is certain that the call runs, so that the engine need not be asked."""
    calls = history.calls
    if calls.rules not in (None, rules.hash) or calls.halted or history.wants_snapshot:
        return False
    return rules.surely_allow(event.tool, calls.begun_of, calls.done_of) or not rules.may_object(
        event.tool, event.args
    )


def _admitted(key: str, event: HookEvent, stamp: dict[str, float]) -> dict[str, Any]:
    line: dict[str, Any] = {"event": "pre", "call": key, "tool": event.tool, "digest": event.digest}
    return {**line, **stamp, "args": dict(event.args)}


def _replica(log: SessionLog, history: History, rules: HookRules, on_rules_change: OnRulesChange) -> Replica:
    changed = history.calls.rules is not None and history.calls.rules != rules.hash
    if changed and on_rules_change == "deny":
        raise HookFault(
            "the rules have changed since the session began",
            remedy="start a new session, or go on by the new rules: --on-rules-change replay",
        )
    from openbox_agentrt.doors.claude_code.restored_session import Replica, StaleSnapshotError

    try:
        return Replica(history, rules)
    except StaleSnapshotError:
        # By another version, or under other rules. The log says everything that it did.
        return Replica(read_history(log, history.session_id, whole=True), rules)


def _lose_forgotten(log: SessionLog, history: History) -> None:
    calls = history.calls
    forgotten = [key for key, call in calls.open.items() if calls.noted - call.position > LOST_AFTER]
    for key in forgotten:
        line = {"event": "lost", "call": key}
        log.append(line)
        calls.note(line)
        history.lines.append(line)
        history.end = log.end


def _reason(refusal: Refusal) -> str:
    advice = "".join(f"; {broken.remedy}" for broken in refusal.broken if broken.remedy)
    return " ".join(f"{refusal.message}{advice}".split())
