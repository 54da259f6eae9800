"""
Sessions of a client that died, or was left open: they never say that they end.

What their evidence would get at the end is written for them, by a hook of another session or by whoever asks,
once they have given no sign of life for a day.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from openbox_agentrt.doors.claude_code.event import read_event
from openbox_agentrt.doors.claude_code.folder import HookFault, StateFolder
from openbox_agentrt.doors.claude_code.log import file_stem

if TYPE_CHECKING:
    from collections.abc import Callable

    from openbox_agentrt.doors.claude_code.event import HookEvent

IDLE_SECONDS = 86_400.0
"""How long a session has given no sign of life that is taken to be over."""

_LOOKED_AT = 1_000
_TAIL = 65_536


def end_idle_sessions(
    state_dir: str,
    end: Callable[[HookEvent], bool],
    *,
    now: float,
    project_dir: str | None = None,
    but: str = "",
    most: int,
) -> int:
    """
    End the sessions of a folder that are over and have not said so.

    Args:
        state_dir: The folder of the session files.
        end: Is given the end of a session, as its client should have sent it, and tells whether it is ended.
        now: Seconds since the epoch.
        project_dir: What a relative folder is taken from.
        but: A session that is not looked at.
        most: How many are ended, at most.

    Returns:
        How many were ended.

    Raises:
        HookFault: The folder cannot be used.
    """
    ended = 0
    folder = StateFolder.open(state_dir, project_dir=project_dir)
    try:
        idle = list(_idle(folder, now, but))
    finally:
        folder.close()
    for session in idle:
        if ended == most:
            break
        said = {"session_id": session, "hook_event_name": "SessionEnd", "reason": "idle"}
        ended += end(read_event(json.dumps(said).encode(), expected=("SessionEnd",)))
    return ended


def _idle(folder: StateFolder, now: float, but: str) -> Iterator[str]:
    names = [name for name in folder.names() if name.endswith(".jsonl") and ".evidence." not in name]
    for name in sorted(names)[:_LOOKED_AT]:
        try:
            with open(folder.open_file(name, os.O_RDONLY), "rb") as file:
                session, last = _session_of(file.readline(_TAIL)), _last_line(file)
        except (HookFault, OSError, ValueError):
            # Not one of ours, or not one to touch: it is told when its own session is looked at.
            continue
        if session is None or session == but or name != f"{file_stem(session)}.jsonl":
            continue
        if last.get("event") not in ("end", "session") and now - last.get("ts", now) > IDLE_SECONDS:
            yield session


def _session_of(line: bytes) -> str | None:
    header = json.loads(line)
    session = header.get("session_id") if isinstance(header, dict) else None
    return session if isinstance(session, str) else None


def _last_line(file: Any) -> Mapping[str, Any]:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    lines = file.read().splitlines()
    last = json.loads(lines[-1]) if lines else {}
    return last if isinstance(last, dict) else {}
