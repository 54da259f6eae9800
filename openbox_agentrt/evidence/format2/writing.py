"""
Writing a log of format 2, one line after the other.

`LogWriter` knows where the chain stands and which file it is in. It is not safe for several threads;
`EvidenceFile` sees to that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ..._values import dataclass
from ..._version import __version__
from ..canonical import GENESIS_HASH, canonical, sha256_hex
from .appending import AppendFile
from .heads import Head, HeadState, write_head
from .lines import LineType, session_text, write_line

SET_ASIDE = "keep it for whoever looks into it: move it and its .head away, and a new log begins"
"""What to do with a log that cannot be continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIdentity:
    """Name a log, its session, rules and key, as its header does."""

    log_id: str
    session_id: str | None
    rules_hash: str | None
    key_id: str | None
    record: str

    def said(self) -> dict[str, str | None]:
        """Give what the header says of it."""
        return {
            "log_id": self.log_id,
            "session_id": self.session_id,
            "rules_hash": self.rules_hash,
            "key_id": self.key_id,
            "record": self.record,
        }

    def continuing(self, log_id: str, header: Mapping[str, Any]) -> LogIdentity:
        """Give the identity that a log goes on with: its own, under this key and with these records."""
        return LogIdentity(
            log_id=log_id,
            session_id=header.get("session_id"),
            rules_hash=header.get("rules_hash"),
            key_id=self.key_id,
            record=self.record,
        )


class LogWriter:
    """
    Writes lines to the last file of a log.

    Attributes:
        identity: What its header says.
        count: Lines so far, over all parts.
    """

    def __init__(
        self,
        log: str | os.PathLike[str],
        identity: LogIdentity,
        *,
        now: Callable[[], str],
        max_bytes: int | None,
        durable: bool,
        part: int = 0,
        count: int = 0,
        prev: str = GENESIS_HASH,
    ) -> None:
        self.identity = identity
        self.count = count
        self._log = os.fspath(log)
        self._now = now
        self._max_bytes = max_bytes
        self._durable = durable
        self._part = part
        self._prev = prev
        self._out: AppendFile | None = None

    def continue_file(self, *, torn: int) -> None:
        """Go on in the file that is there, without the bytes that a crash has left at its end."""
        self._out = AppendFile(self._log)
        self._out.cut(self._out.size - torn)

    def begin_file(self, *, previous: str | os.PathLike[str] | None) -> None:
        """Begin the next part, whose header names the file before it."""
        link = None
        if previous is not None:
            link = {"count": self.count, "file": os.path.basename(previous), "hash": self._prev}
        fields = {**self.identity.said(), "format": 2, "part": self._part + 1, "previous": link}
        body = canonical({**fields, "writer": f"openbox-agentrt-sdk-python {__version__}"})
        line, digest = self._line(body, session_text(self.identity.session_id), "header")
        # Beside the log first: there is never a file without a header where the log is.
        folder, name = os.path.split(self._log)
        beside = os.path.join(folder, f".{name}.next")
        with suppress(FileNotFoundError):
            os.unlink(beside)
        out = AppendFile(beside)
        try:
            out.append(line)
            _put_in_place(beside, self._log, previous)
        except BaseException:
            out.close()
            raise
        if self._out is not None:
            self._out.close()
        self._out = out
        self._part += 1
        self._prev = digest
        self.count += 1

    def note_resumed(self, wanted: LogIdentity, *, found: int, sealed: int, dropped: bytes = b"") -> None:
        """
        Write that the log was opened again, and for whom if that is somebody else than before.

        Args:
            wanted: What the header of a new log would say.
            found: How many lines there were.
            sealed: How many of them the head vouched for.
            dropped: What a crash had left after them, which is cut off.
        """
        session = session_text(wanted.session_id)
        said = {
            "dropped_bytes": len(dropped),
            "dropped_sha256": sha256_hex(dropped) if dropped else None,
            "found": found,
            "sealed": sealed,
        }
        self.write(canonical(said), session=session, type="resumed")
        own = self.identity
        if (own.session_id, own.rules_hash) != (wanted.session_id, wanted.rules_hash):
            self.write(canonical({"rules_hash": wanted.rules_hash}), session=session, type="session")

    @property
    def full(self) -> bool:
        """True if the file is as large as a part should be."""
        return self._max_bytes is not None and self._out is not None and self._out.size >= self._max_bytes

    def write(self, body: bytes, *, session: str, type: LineType) -> int:
        """
        Add a line and give its number.

        Raises:
            OSError: If it could not be written. The log is as it was then.
            ValueError: If the log is closed.
        """
        if self._out is None:
            raise ValueError("the log is closed")
        line, digest = self._line(body, session, type)
        self._out.append(line)
        self._prev = digest
        self.count += 1
        return self.count - 1

    def rotate(self, sign: Callable[[Head], Head]) -> Head:
        """
        Put the file away and begin the next part. Gives the new head of the log.

        Raises:
            OSError: If that fails. The log goes on in the file it has.
        """
        # Loaded here: a hook has no time for what few logs need.
        from pathlib import Path

        from .parts import part_path

        put_away = part_path(Path(self._log), self._part)
        # The part gets a head of its own, so that it can be verified where it is archived.
        write_head(put_away, sign(self.head("rotated")), durable=self._durable)
        self.begin_file(previous=put_away)
        head = sign(self.head())
        self.put_head(head)
        return head

    def head(self, state: HeadState = "open") -> Head:
        """The head of the log as it stands, not yet signed."""
        return Head(
            log_id=self.identity.log_id,
            part=self._part,
            count=self.count,
            hash=self._prev,
            state=state,
            key_id=self.identity.key_id,
        )

    def put_head(self, head: Head) -> None:
        """Replace the head of the log."""
        if self._durable and self._out is not None:
            self._out.sync()
        write_head(self._log, head, durable=self._durable)

    def close(self) -> None:
        """Close the file that is written to."""
        if self._out is not None:
            self._out.close()
            self._out = None

    def _line(self, body: bytes, session: str, type: LineType) -> tuple[bytes, str]:
        return write_line(
            body=body, prev=self._prev, seq=self.count, session=session, time=self._now(), type=type
        )


def _put_in_place(beside: str, log: str, put_away: str | os.PathLike[str] | None) -> None:
    if put_away is None or not os.path.exists(log):
        os.replace(beside, log)
        return
    os.rename(log, put_away)
    try:
        os.replace(beside, log)
    except BaseException:
        os.rename(put_away, log)
        raise
