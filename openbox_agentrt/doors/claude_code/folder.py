"""
The private folder of the hook processes: opened, checked and locked.

Nothing in it is reached through a link, and nothing in it may be written by another user. Whatever is not as
it should be is a `HookFault`; the caller denies on one: fail-closed.
"""

import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable

from openbox_agentrt._files.lock import FileLockedError, lock_descriptor
from openbox_agentrt._files.whole_write import write_private

from ..._picklable import PicklableError

# Shorter than any sensible hook timeout: a hook that is killed while it waits has not denied.
LOCK_WAIT_SECONDS = 20.0

# Not on Windows, where links need a privilege and handles are not inherited.
_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_HAS_DIR_FD = os.open in os.supports_dir_fd


class HookFault(PicklableError):
    """
    A hook cannot answer. Nothing was admitted, and the caller has to deny.

    Attributes:
        remedy: What would make it work again, or None.
    """

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        self.remedy = remedy
        super().__init__(message)


class StateFolder:
    """
    Hold open a folder that only its owner can use.

    On POSIX it is held by its descriptor, so that exchanging the path for a link later changes nothing.
    """

    def __init__(self, path: str, fd: int | None) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, project_dir: str | None = None) -> "StateFolder":
        """
        Open a folder, and create it if it is missing.

        Args:
            path: The folder. A relative one is taken from the project.
            project_dir: The project, which may come from someone else: nothing between it and the folder
                may be a link. The working directory if None.

        Raises:
            HookFault: It is a link or no folder, belongs to another user, can be written by others, or cannot
                be created.
        """
        text = os.path.join(project_dir or "", os.path.expanduser(os.fspath(path)))
        _refuse_links(text, "" if project_dir is None else project_dir.rstrip(os.sep))
        try:
            os.makedirs(os.path.dirname(text) or ".", exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(text, 0o700)
            if not _HAS_DIR_FD:
                return cls(text, None)
            fd = os.open(text, os.O_RDONLY | os.O_DIRECTORY | _OPEN_FLAGS)
        except OSError as error:
            raise HookFault(f"state folder {text!r} cannot be used: {error.strerror}") from error
        folder = cls(text, fd)
        try:
            _make_private(fd, 0o700, f"state folder {text!r}")
        except HookFault:
            folder.close()
            raise
        return folder

    def open_file(self, name: str, flags: int) -> int:
        """
        Open a file of the folder, created with 0600 if `flags` ask for it.

        Raises:
            HookFault: It is a link or no plain file, has a second name, belongs to another user, can be
                written by others, or cannot be opened.
        """
        try:
            fd = os.open(self._where(name), flags | _OPEN_FLAGS, 0o600, dir_fd=self._fd)
        except OSError as error:
            raise HookFault(f"state file {name!r} cannot be opened: {error.strerror}") from error
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise HookFault(f"state file {name!r} is not a plain file with one name")
            _make_private(fd, 0o600, f"state file {name!r}")
        except HookFault:
            os.close(fd)
            raise
        return fd

    def exists(self, name: str) -> bool:
        """Tell whether the folder has an entry of that name, of whatever type."""
        try:
            os.stat(self._where(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """List what is in the folder."""
        return os.listdir(self._path if self._fd is None else self._fd)

    def still_names(self, name: str, fd: int) -> bool:
        """Tell whether `name` is still the file that was opened: neither removed nor replaced since."""
        try:
            now = os.stat(self._where(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(now, os.fstat(fd))

    def replace_file(self, name: str, data: bytes) -> None:
        """Write a whole file in one step: others see the old one or the new one."""
        write_private(self._where(name), data, folder=self._fd)

    def close(self) -> None:
        """Let go of the folder."""
        if self._fd is not None:
            os.close(self._fd)

    def _where(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)


def lock_file(
    fd: int,
    name: str,
    *,
    wait_seconds: float = LOCK_WAIT_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """
    Take the lock of an open file; closing the file gives it back, and so does the end of the process.

    Raises:
        HookFault: Another process held it all the time.
    """
    try:
        lock_descriptor(fd, wait_seconds=wait_seconds, sleep=sleep)
    except FileLockedError as error:
        raise HookFault(f"state file {name!r} stayed locked for {wait_seconds:g} s") from error


def _refuse_links(path: str, project_dir: str) -> None:
    # Outside of the project, the parents are the user's own affair (/tmp is a link on macOS).
    inside = not os.path.isabs(path) or (project_dir != "" and path.startswith(project_dir + os.sep))
    part = path.rstrip(os.sep)
    while part and part != project_dir:
        if os.path.islink(part):
            raise HookFault(f"state folder {part!r} is a link", remedy="name the folder that it points to")
        if not inside:
            return
        part = os.path.dirname(part)


def _make_private(fd: int, mode: int, what: str) -> None:
    if sys.platform == "win32":
        return
    status = os.fstat(fd)
    if status.st_uid != os.geteuid():
        raise HookFault(f"{what} belongs to another user")
    if status.st_mode & 0o022:
        # What others could write, they may have written.
        raise HookFault(f"{what} can be written by other users", remedy="move it away")
    if status.st_mode & 0o077:
        os.fchmod(fd, mode)
