"""One writer per log, across processes and within one."""

import os
import sys
from pathlib import Path

from .errors import LogInUseError

__all__ = ("WriterLock", "lock_path")


def lock_path(log: Path) -> Path:
    """The file whose lock stands for the log. It stays: removing it would let two writers in."""
    return log.with_name(log.name + ".lock")


class WriterLock:
    """
    The right to write to a log, held until `release` or the end of the process.

    The operating system keeps the lock, so a process that is killed leaves none behind.

    Raises:
        LogInUseError: If another writer holds it.
        OSError: If the lock file cannot be opened.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, log: Path) -> None:
        descriptor = os.open(lock_path(log), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _acquire(descriptor)
        except OSError as error:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() if _POSIX else ""
            os.close(descriptor)
            who = f" (process {holder})" if holder.isdecimal() else ""
            raise LogInUseError(
                f"another writer holds this evidence log{who}",
                path=str(log),
                remedy="give each process a file of its own, or close the other writer",
            ) from error
        if _POSIX:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let the next writer in."""
        if self._descriptor is not None:
            # Closing the descriptor releases the lock.
            os.close(self._descriptor)
            self._descriptor = None


_POSIX = sys.platform != "win32"

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
