"""Files that only their owner can read, replaced in one step."""

import contextlib
import os
from pathlib import Path

__all__ = ("write_private",)


def write_private(path: Path, data: bytes, *, sync: bool = False) -> None:
    """
    Put a file in place, whole or not at all, in place of one that is there.

    Args:
        path: Where.
        data: What it holds.
        sync: Wait until it is on the disk.

    Raises:
        OSError: If that fails. What was there before is still there then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
