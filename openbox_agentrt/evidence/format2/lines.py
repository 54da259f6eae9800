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
import re
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from ..canonical import canonical, decoded, sha256_hex

LineType: TypeAlias = Literal[
    "header", "violation", "decision", "outcome", "session", "gap", "resumed", "rules", "step", "key"
]

_TYPES = "|".join(get_args(LineType)).encode()
# The members after the body hold no free text but the session, whose quotes are escaped: there is one way
# to read a line.
_LINE = re.compile(
    rb'\{"body":(?P<body>\{.*\})'
    rb'(?P<own>,"hash":"(?P<hash>[0-9a-f]{64})")'
    rb',"prev":"(?P<prev>[0-9a-f]{64})"'
    rb',"seq":(?P<seq>0|[1-9][0-9]{0,17})'
    rb',"session":(?P<session>null|"(?:[^"\\]|\\.)*+")'
    rb',"time":"(?P<time>[0-9T:.+Z-]{1,40})"'
    rb',"type":"(?P<type>' + _TYPES + rb')"\}\n'
)


class LogLine(NamedTuple):
    """One line of a log. `body` is the JSON text as it stands there, and `fields` what it says."""

    body: bytes
    fields: dict[str, Any]
    hash: str
    prev: str
    seq: int
    session: str | None
    time: str
    type: LineType
    computed_hash: str

    def data(self) -> dict[str, Any]:
        """Give the body of the line, decoded."""
        return self.fields


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


def parse_line(raw: bytes) -> LogLine:
    """
    Read one line, with its line end.

    Raises:
        ValueError: If it is not a line as a writer of this format writes it.
    """
    match = _LINE.fullmatch(raw)
    if match is None:
        raise ValueError("not a line of an evidence log")
    kind: Any = match["type"].decode()
    return LogLine(
        body=match["body"],
        fields=decoded(match["body"]),
        hash=match["hash"].decode(),
        prev=match["prev"].decode(),
        seq=int(match["seq"]),
        session=decoded(match["session"]),
        time=match["time"].decode(),
        type=kind,
        computed_hash=sha256_hex(raw[: match.start("own")] + raw[match.end("own") : -1]),
    )
