"""Reading one line of a log of format 2, as it stands there. See `lines` for what it is."""

import re
from typing import Any, NamedTuple, get_args

from ..canonical import decoded, sha256_hex
from .lines import LineType

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
