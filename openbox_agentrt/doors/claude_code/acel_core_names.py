"""
Claude Code hooks under acel-core's names, for settings and programs written for it.

They answer as acel-core's do, and keep its trace file, one JSON list per session, for whoever reads it.
What they decide by is the log of the other hooks: parallel calls are counted, failed ones allow nothing,
and a trace that acel-core began is taken over. Where acel-core would go on without its rules or its
history, these deny: a fault is exit code 2. Standard input that is empty is the exception, and says
nothing, as with acel-core.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openbox_agentrt._plain.strict_json import read_json
from openbox_agentrt.doors.claude_code.answers import deny_output, fault_line
from openbox_agentrt.doors.claude_code.event import HookEvent, event_from
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.claude_code.history import end_call
from openbox_agentrt.doors.claude_code.log import SessionLog, file_stem, open_log

DEFAULT_STATE_DIR = ".claude/acel_state"

_MAX_NAME = 128


def pretooluse(
    hook_input: Mapping[str, Any],
    *,
    rules_path: str | os.PathLike[str],
    state_dir: str | os.PathLike[str] = DEFAULT_STATE_DIR,
) -> dict[str, Any]:
    """
    Judge a call that is about to run.

    Returns:
        The answer that denies it, or an empty dict.

    Raises:
        HookFault: It cannot be judged.
    """
    from openbox_agentrt.doors.claude_code.judgement import begin_call
    from openbox_agentrt.doors.claude_code.rules import load_hook_rules

    event = _event(hook_input, "PreToolUse")
    with _log(state_dir, event) as log:
        rules = load_hook_rules(rules_path, log.folder)
        _take_over(log, state_dir, event)
        ruling = begin_call(log, event, rules, now=time.time(), on_rules_change="replay")
    return {} if ruling.reason is None else deny_output(ruling.reason)


def posttooluse(
    hook_input: Mapping[str, Any], *, state_dir: str | os.PathLike[str] = DEFAULT_STATE_DIR
) -> dict[str, Any]:
    """
    Take note of a call that ended.

    Returns:
        An empty dict.

    Raises:
        HookFault: It cannot be written down.
    """
    name = hook_input.get("hook_event_name")
    event = _event(hook_input, name if isinstance(name, str) else "PostToolUse")
    with _log(state_dir, event) as log:
        _take_over(log, state_dir, event)
        end_call(log, event, now=time.time())
        _show(log, _trace_path(Path(state_dir), event.session_id).name, event)
    return {}


def main_pretooluse(rules_path: str, state_dir: str = DEFAULT_STATE_DIR) -> int:
    """Judge the call on standard input, print what denies it, and give the exit code."""
    try:
        hook_input = _read_stdin_json()
        output = pretooluse(hook_input, rules_path=rules_path, state_dir=state_dir) if hook_input else {}
    except Exception as error:  # noqa: BLE001 - fail-closed: any other exit code would let the call run
        return _fault(error)
    if output:
        print(json.dumps(output))
    return 0


def main_posttooluse(state_dir: str = DEFAULT_STATE_DIR) -> int:
    """Take note of the call on standard input, and give the exit code."""
    try:
        hook_input = _read_stdin_json()
        if hook_input:
            posttooluse(hook_input, state_dir=state_dir)
    except Exception as error:  # noqa: BLE001 - fail-closed: what is not noted is not known to have ended
        return _fault(error)
    return 0


def _fault(error: Exception) -> int:
    print(fault_line(error), file=sys.stderr)
    return 2


def _read_stdin_json() -> dict[str, Any]:
    text = sys.stdin.read().lstrip("\ufeff")
    if not text.strip():
        return {}
    try:
        hook_input = read_json(text)
    except ValueError as error:
        raise HookFault(f"the event on standard input is no JSON: {error}") from error
    if not isinstance(hook_input, dict):
        raise HookFault("the event on standard input is no JSON object")
    return hook_input


def _event(hook_input: Mapping[str, Any], name: str) -> HookEvent:
    # acel-core reads an event that leaves these out.
    filled = {"session_id": "unknown", "tool_name": "unknown"} | dict(hook_input)
    filled |= {"hook_event_name": name, "tool_input": hook_input.get("tool_input") or {}}
    return event_from(filled)


def _log(state_dir: str | os.PathLike[str], event: HookEvent) -> Any:
    project_dir = os.environ.get("CLAUDE_PROJECT_DIR") or None
    return open_log(state_dir, event.session_id, project_dir=project_dir)


def _safe_session_id(session_id: str) -> str:
    """Take out of a session id what cannot stand in a file name. Different ids may give the same."""
    return "".join(c for c in session_id if c.isalnum() or c in "-_") or "unknown"


def _trace_path(state_dir: Path, session_id: str) -> Path:
    """Find the trace of a session: acel-core's name for it, unless another session has that as well."""
    safe = _safe_session_id(session_id)
    if safe == session_id and len(safe) <= _MAX_NAME and safe.isascii():
        return state_dir / f"{safe}.json"
    return state_dir / f"{safe[:32]}-{file_stem(session_id)}.json"


def _take_over(log: SessionLog, state_dir: str | os.PathLike[str], event: HookEvent) -> None:
    name = _trace_path(Path(state_dir), event.session_id).name
    if not log.is_blank or not log.folder.exists(name):
        return
    with open(log.folder.open_file(name, os.O_RDONLY), encoding="utf-8") as file:
        try:
            rows = read_json(file.read())
        except ValueError as error:
            raise HookFault(f"trace file {name!r} is corrupt: {error}", remedy="move it away") from error
    if not isinstance(rows, list):
        raise HookFault(f"trace file {name!r} is corrupt: it holds no list", remedy="move it away")
    for row in rows:
        end_call(
            log, _event({"session_id": event.session_id, **_call_of(row)}, "PostToolUse"), now=time.time()
        )


def _call_of(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise HookFault("a row of the trace file is no JSON object", remedy="move it away")
    return {"tool_name": row.get("tool"), "tool_input": row.get("args"), "tool_response": row.get("result")}


def _show(log: SessionLog, name: str, event: HookEvent) -> None:
    row = json.dumps({"tool": event.tool, "args": dict(event.args), "result": event.result})
    with open(log.folder.open_file(name, os.O_RDWR | os.O_CREAT), "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            file.write(f"[{row}]".encode())
            return
        # In place of the closing bracket, so that a long trace is not written again for each call.
        file.seek(size - 1)
        if file.read() != b"]":
            raise HookFault(f"trace file {name!r} is corrupt: it does not end a list", remedy="move it away")
        file.seek(size - 1)
        file.write(f", {row}]".encode() if size > 2 else f"{row}]".encode())
