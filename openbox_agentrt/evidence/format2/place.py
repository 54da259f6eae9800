"""The place of a log: its file, the lock that keeps other writers out, and the public key beside it."""

import datetime
import os
from pathlib import Path

from ..._files.lock import FileLock, FileLockedError
from ..._files.whole_write import write_private
from ..errors import LogInUseError
from ..keys import Ed25519Signer, public_key_path


def file_at(path: str | os.PathLike[str]) -> Path:
    """Give the file of a log; in a folder, one of its own for this process."""
    given = Path(path).expanduser()
    if not given.is_dir() and not os.fspath(path).endswith(("/", os.sep)):
        return given
    started = datetime.datetime.now(datetime.UTC)
    return given / f"{started:%Y%m%dT%H%M%S}-{os.getpid()}-{os.urandom(3).hex()}.jsonl"


def put_public_key(log: Path, signer: Ed25519Signer) -> None:
    """Write the public key beside a log."""
    # For whoever archives it with the log. What proves something is a copy that was taken elsewhere before.
    path, data = public_key_path(log), f"{signer.public_key_hex}\n".encode()
    if not path.is_file() or path.read_bytes() != data:
        write_private(path, data)


def lock_of(log: Path) -> FileLock:
    """
    Take the lock of a log.

    Raises:
        LogInUseError: Another writer holds it.
    """
    try:
        return FileLock(log.with_name(log.name + ".lock"))
    except FileLockedError as error:
        who = "" if error.holder is None else f" (process {error.holder})"
        raise LogInUseError(
            f"another writer holds this evidence log{who}",
            path=str(log),
            remedy="give each process a file of its own, or close the other writer",
        ) from error
