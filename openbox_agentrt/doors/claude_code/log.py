"""
The log of one hook session: append-only lines, written and read under a lock.

Every hook event is a process of its own and many run at once, so what one knows about the others is in a
file. A line, once written, is never changed. Whoever can write the file can write any history: it is the
folder that keeps others out. A line that was written in part is noticed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from openbox_agentrt._plain.digest import text_digest
from openbox_agentrt.doors.claude_code.folder import LOCK_WAIT_SECONDS, HookFault, StateFolder, lock_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VERSION = 2


def file_stem(session_id: str) -> str:
    """
    Name the files of a session, without an ending.

    A digest, so that two sessions never share a file and no session id can leave the folder or name another
    program's file in it.
    """
    return text_digest(session_id)[:40]


@contextmanager
def open_log(
    state_dir: str | os.PathLike[str],
    session_id: str,
    *,
    project_dir: str | None = None,
    wait_seconds: float = LOCK_WAIT_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[SessionLog]:
    """
    Open the log of a session and hold its lock.

    Args:
        state_dir: Folder of the session files. Created, private to the user, if it is missing.
        session_id: Session as the client names it.
        project_dir: What a relative folder is taken from.
        wait_seconds: How long to wait for the lock.
        sleep: Waits between two tries.

    Raises:
        HookFault: The folder or the file is not as it should be, or the lock was not free in time.
    """
    folder = StateFolder.open(state_dir, project_dir=project_dir)
    try:
        name = f"{file_stem(session_id)}.jsonl"
        fd = folder.open_file(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            lock_file(fd, name, wait_seconds=wait_seconds, sleep=sleep)
            if not folder.still_names(name, fd):
                raise HookFault(f"state file {name!r} was removed by another program")
            yield SessionLog(fd, folder, session_id)
        finally:
            # Closing gives the lock back.
            os.close(fd)
    finally:
        folder.close()


class SessionLog:
    """
    Read and write the lines of one session, under its lock.

    Attributes:
        folder: Folder that the log lies in.
        stem: Name of the session's files, without an ending.
        end: Size of the file in bytes.
    """

    def __init__(self, fd: int, folder: StateFolder, session_id: str) -> None:
        self._fd = fd
        self.folder = folder
        self.stem = file_stem(session_id)
        self.end = os.fstat(fd).st_size
        if self.end == 0:
            self.append({"event": "session", "version": _VERSION, "session_id": session_id})
            self._header_end = self.end
        else:
            self._header_end = self._check_header(session_id)

    @property
    def is_blank(self) -> bool:
        """Tell whether nothing was written yet but which session it is."""
        return self.end == self._header_end

    def read(self, offset: int = 0) -> list[dict[str, Any]]:
        """
        Read the lines from an offset on.

        Args:
            offset: Where a line begins: zero, or `end` as it was at an earlier time.

        Raises:
            HookFault: A line is torn or no JSON object, or none begins there.
        """
        if not 0 <= offset <= self.end or (offset > 0 and self._pread(offset - 1, 1) != b"\n"):
            raise self._corrupt("does not hold what its snapshot was taken from")
        *lines, rest = self._pread(offset, self.end - offset).split(b"\n")
        if rest:
            raise self._corrupt("ends in the middle of a line")
        return [self._parse(line) for line in lines]

    def append(self, entry: Mapping[str, Any]) -> None:
        """
        Write one more line, whole or not at all.

        Raises:
            HookFault: The line could not be written. What was written of it is cut off again.
        """
        try:
            data = json.dumps(entry, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise HookFault(f"the event cannot be stored: {error}") from error
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                raise OSError(f"wrote {written} of {len(data)} bytes")
        except OSError as error:
            # A torn line would make the session unusable; the size is ours to restore while we hold the lock.
            os.ftruncate(self._fd, self.end)
            raise HookFault(f"state file '{self.stem}.jsonl' cannot be written: {error}") from error
        self.end += len(data)

    def read_snapshot(self) -> dict[str, Any] | None:
        """
        Read the newest snapshot; None if there is none yet.

        Raises:
            HookFault: It is there and cannot be read.
        """
        name = f"{self.stem}.snap"
        if not self.folder.exists(name):
            return None
        with open(self.folder.open_file(name, os.O_RDONLY), "rb") as file:
            try:
                snapshot = json.load(file)
            except (ValueError, RecursionError):
                snapshot = None
        if not isinstance(snapshot, dict):
            raise HookFault(
                f"state file {name!r} is corrupt", remedy="remove it: it is built again from the log"
            )
        return snapshot

    def write_snapshot(self, snapshot: Mapping[str, Any]) -> None:
        """
        Replace the snapshot, in one step.

        Raises:
            HookFault: It cannot be written. The one before it is still there.
        """
        try:
            data = json.dumps(snapshot, separators=(",", ":"), allow_nan=False).encode()
            self.folder.replace_file(f"{self.stem}.snap", data)
        except (OSError, TypeError, ValueError, RecursionError) as error:
            raise HookFault(f"state file '{self.stem}.snap' cannot be written: {error}") from error

    def _check_header(self, session_id: str) -> int:
        line, ended, _ = self._pread(0, min(self.end, 65536)).partition(b"\n")
        header = self._parse(line) if ended else {}
        if header.get("event") != "session" or header.get("session_id") != session_id:
            raise self._corrupt("does not begin with the session that it is named after")
        if header.get("version") != _VERSION:
            raise self._corrupt(f"has the unknown version {header.get('version')!r}")
        return len(line) + 1

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise self._corrupt("has a line that is no JSON") from error
        if not isinstance(entry, dict):
            raise self._corrupt("has a line that is no object")
        return entry

    def _pread(self, offset: int, count: int) -> bytes:
        os.lseek(self._fd, offset, os.SEEK_SET)
        parts = []
        while count > 0:
            part = os.read(self._fd, count)
            if not part:
                raise self._corrupt("became shorter while it was read")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _corrupt(self, what: str) -> HookFault:
        return HookFault(
            f"state file '{self.stem}.jsonl' {what}",
            remedy="keep the file for whoever looks into it, move it away, and start a new session",
        )
