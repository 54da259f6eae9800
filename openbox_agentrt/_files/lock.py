"""One writer per log, across processes and within one."""

import os
import sys
from pathlib import Path

from ..evidence.errors import LogInUseError

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
            holder = _holder(descriptor)
            os.close(descriptor)
            who = f" (process {holder})" if holder.isdecimal() else ""
            raise LogInUseError(
                f"another writer holds this evidence log{who}",
                path=str(log),
                remedy="give each process a file of its own, or close the other writer",
            ) from error
        _name_holder(descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next writer in."""
        # Closing the descriptor releases the lock.
        os.close(self._descriptor)


if sys.platform == "win32":  # pragma: no cover - the tests that measure coverage run elsewhere
    import msvcrt

    def _acquire(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _holder(descriptor: int) -> str:
        # A locked region cannot be read there.
        return ""

    def _name_holder(descriptor: int) -> None:
        pass

else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _holder(descriptor: int) -> str:
        return os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()

    def _name_holder(descriptor: int) -> None:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
