"""
How a call of a hook session ended.

This only writes to the log: what it means is for the next judgement. So the hook after a call needs
neither rules nor engine, and is quick.
"""

from typing import Any

from openbox_agentrt.doors.claude_code.event import HookEvent
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.claude_code.history import read_history
from openbox_agentrt.doors.claude_code.log import SessionLog

__all__ = ("end_call",)


def end_call(log: SessionLog, event: HookEvent, *, now: float) -> None:
    """
    Write down how a call ended.

    A call that was never asked about, or that was given up, is written down as one that ran: it is counted,
    whatever the rules say.

    Raises:
        HookFault: It cannot be written.
    """
    calls = read_history(log, event.session_id).calls
    key = calls.ended_by(event)
    ts = max(now, calls.latest)
    if key is not None:
        line: dict[str, Any] = {"event": "post", "call": key, "ok": event.ok, "ran": event.ran, "ts": ts}
        if calls.open[key].tool != event.tool:
            raise HookFault(f"tool_use_id {event.call_id!r:.100} was used by another tool")
        if calls.open[key].digest != event.digest:
            # Another hook has changed the arguments since.
            line["args"] = dict(event.args)
        log.append(line)
        return
    key = calls.key_for(event)
    if not event.ran or (event.call_id is not None and key in calls.ended):
        # It never ran, or another hook has reported the same end.
        return
    log.append(
        {
            "event": "ran",
            "call": key,
            "tool": event.tool,
            "args": dict(event.args),
            "outcome": "ok" if event.ok else "failed",
            "ts": ts,
        }
    )
