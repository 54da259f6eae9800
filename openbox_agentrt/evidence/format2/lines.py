"""
Format 2: one JSON object per line, each linked to the line before it.

    {"body":{...},"hash":"...","prev":"...","seq":7,"session":"s-1","time":"2026-...","type":"violation"}

``hash`` is the SHA-256 of the line as it stands, without its ``,"hash":"..."`` and its line end; ``prev`` is
the ``hash`` of the line before. Members are in this order, always, without spaces: a line is checked
as bytes, and nobody has to agree on how to write a number.

The first line of every file has the type ``header``. The others:

    ``violation``  a broken contract
    ``decision``   what a gate decided about one event
    ``outcome``    what became of something that was decided
    ``session``    which rules a session runs under, where one log serves several sessions
    ``rules``      the contracts of sessions, once for each set of them
    ``step``       an event of a session: a call that was asked for, how one ended, a write to its state
    ``gap``        records were lost before this one, e.g. because the disk was full
    ``resumed``    the log was opened again
    ``key``        the log is signed with another key from here on, which the one before it vouches for
"""

import functools
from typing import Literal, TypeAlias

from ..canonical import canonical, sha256_hex

LineType: TypeAlias = Literal[
    "header", "violation", "decision", "outcome", "session", "gap", "resumed", "rules", "step", "key"
]

MAX_LINE = 64 << 20
"""So many bytes of a line are read, with its end: no longer one is written."""


@functools.lru_cache(maxsize=256)
def session_text(session_id: str | None) -> str:
    """A session's name as it stands in a line."""
    if session_id is None:
        return "null"
    return canonical(session_id.encode("utf-8", "backslashreplace").decode()).decode()


def write_line(
    *, body: bytes, prev: str, seq: int, session: str, time: str, type: LineType
) -> tuple[bytes, str]:
    """A line with its line end, and its hash. `body` and `session` are canonical JSON."""
    start = b'{"body":' + body
    rest = f',"prev":"{prev}","seq":{seq},"session":{session},"time":"{time}","type":"{type}"}}'.encode()
    digest = sha256_hex(start + rest)
    return b'%b,"hash":"%b"%b\n' % (start, digest.encode(), rest), digest
