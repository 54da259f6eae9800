"""
What a hook process knows of its session, and a contract session that knows the same.

The log is the authority. A snapshot only saves reading all of it: it is taken at a line after which no
call was under way, since a contract session is restored without the calls that it had in flight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openbox_agentrt.doors.claude_code.calls import Calls
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.claude_code.log import GENESIS, Line, SessionLog

__all__ = ("History", "read_history")


@dataclass(slots=True)
class History:
    """
    The lines of a session since its snapshot, and what they say of its calls.

    Attributes:
        session_id: The client's session.
        snapshot: Where the lines begin, or None for the beginning.
        lines: The lines.
        calls: What they say.
        quiet: Index of the last line after which no call was under way, or None.
    """

    session_id: str
    snapshot: Mapping[str, Any] | None
    lines: list[Line]
    calls: Calls
    quiet: int | None


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
        if snapshot is None:
            offset, chain, calls = 0, GENESIS, Calls()
        else:
            offset, chain = snapshot["offset"], snapshot["chain"]
            calls = Calls(rules=snapshot["rules"], begun=snapshot["begun"], latest=snapshot["latest"])
        lines = log.read(offset, chain)
        quiet = None
        for index, line in enumerate(lines):
            calls.note(line.entry)
            if not calls.open:
                quiet = index
    except (KeyError, TypeError, AttributeError) as error:
        raise HookFault(
            f"state file '{log.stem}' holds a line of another form: {error}",
            remedy="move the file away and start a new session",
        ) from error
    return History(session_id, snapshot, lines, calls, quiet)
