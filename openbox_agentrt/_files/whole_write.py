"""Files that only their owner can read, put in place in one step."""

import contextlib
import os
from pathlib import Path

__all__ = ("write_private",)


def write_private(path: Path, data: bytes, *, sync: bool = False, replace: bool = True) -> None:
    """
    Put a file in place, whole or not at all.

    Args:
        path: Where.
        data: What it holds.
        sync: Wait until it is on the disk.
        replace: Take the place of one that is there.

    Raises:
        FileExistsError: If there is one and it is not to be replaced.
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
        if replace:
            os.replace(temporary, path)
        else:
            # A link, not a rename: a rename would replace what another process has just put there.
            os.link(temporary, path)
            temporary.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
