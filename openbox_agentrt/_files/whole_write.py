"""Files that only their owner can read, put in place in one step."""

import contextlib
import os


def write_private(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    sync: bool = False,
    replace: bool = True,
    folder: int | None = None,
) -> None:
    """
    Put a file in place, whole or not at all.

    Args:
        path: Where.
        data: What it holds.
        sync: Wait until it is on the disk.
        replace: Take the place of one that is there.
        folder: Descriptor of the open folder that a relative path is taken from.

    Raises:
        FileExistsError: If there is one and it is not to be replaced.
        OSError: If that fails. What was there before is still there then.
    """
    parent, name = os.path.split(path)
    temporary = os.path.join(parent, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            # A link, not a rename: a rename would replace what another process has just put there.
            os.link(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
            os.unlink(temporary, dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
