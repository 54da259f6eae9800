"""
The lock of a file, across processes and within one.

The operating system keeps it and gives it back when the file is closed, so a process that is killed leaves
none behind.
"""

import errno
import os
import sys
import time
from collections.abc import Callable

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02


class FileLockedError(OSError):
    """
    Somebody else holds the lock. Nothing was locked.

    Attributes:
        holder: Number of the process that holds it, where that is known.
    """

    def __init__(self, holder: int | None = None) -> None:
        self.holder = holder
        who = "" if holder is None else f" by process {holder}"
        super().__init__(errno.EAGAIN, f"locked{who}")

    def __reduce__(self) -> tuple[object, ...]:
        # OSError would rebuild it of its two arguments.
        return type(self), (self.holder,)


def lock_descriptor(
    descriptor: int, *, wait_seconds: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> None:
    """
    Take the lock of an open file. Closing the file gives it back, and so does the end of the process.

    Args:
        descriptor: The open file.
        wait_seconds: How long to wait for whoever holds it.
        sleep: Waits between two tries.

    Raises:
        FileLockedError: Somebody else held it all the time.
    """
    waited, pause = 0.0, _FIRST_PAUSE
    while True:
        try:
            _try_lock(descriptor)
            return
        except OSError as error:
            if waited >= wait_seconds:
                raise FileLockedError from error
        sleep(pause)
        waited += pause
        pause = min(pause * 2, _LONGEST_PAUSE)


class FileLock:
    """
    Hold the lock of a file that is there to be locked, until `release` or the end of the process.

    The file stays: removing it would let two in. It says which process holds the lock.

    Raises:
        FileLockedError: If somebody else holds it.
        OSError: If the file cannot be opened.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_descriptor(descriptor)
        except FileLockedError as error:
            raise FileLockedError(_holder(descriptor)) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next one in."""
        # Closing the descriptor releases the lock.
        os.close(self._descriptor)


def _holder(descriptor: int) -> int | None:
    try:
        text = os.read(descriptor, 20).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    return int(text) if text.isdecimal() else None


if sys.platform == "win32":  # pragma: no cover - the tests that measure coverage run elsewhere
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        # Far past the end: a locked byte that holds data could not be read by others.
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, 1 << 40, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
