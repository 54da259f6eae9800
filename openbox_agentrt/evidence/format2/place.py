"""The place of a log: its file, the lock that keeps other writers out, and the public key beside it."""

import os
import time

from ..._files.lock import FileLock, FileLockedError
from ..._files.whole_write import write_private
from ..errors import LogInUseError
from ..keys import Ed25519Signer, public_key_path


def file_at(path: str | os.PathLike[str]) -> str:
    """Give the file of a log; in a folder, one of its own for this process."""
    given = os.path.expanduser(os.fspath(path))
    if not os.path.isdir(given) and not given.endswith(("/", os.sep)):
        return given
    started = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return os.path.join(given, f"{started}-{os.getpid()}-{os.urandom(3).hex()}.jsonl")


def put_public_key(log: str, signer: Ed25519Signer) -> None:
    """Write the public key beside a log."""
    # For whoever archives it with the log. What proves something is a copy that was taken elsewhere before.
    path, data = public_key_path(log), f"{signer.public_key_hex}\n".encode()
    if not os.path.isfile(path) or _bytes_of(path) != data:
        write_private(path, data)


def lock_of(log: str) -> FileLock:
    """
    Take the lock of a log.

    Raises:
        LogInUseError: Another writer holds it.
    """
    try:
        return FileLock(f"{log}.lock")
    except FileLockedError as error:
        who = "" if error.holder is None else f" (process {error.holder})"
        raise LogInUseError(
            f"another writer holds this evidence log{who}",
            path=log,
            remedy="give each process a file of its own, or close the other writer",
        ) from error


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
