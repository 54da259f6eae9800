"""A file that only grows, by whole writes."""

import os


class AppendFile:
    """
    Appends to a file, each time all of it or nothing.

    Args:
        path: The file.

    Attributes:
        size: Its size in bytes.

    Raises:
        OSError: If it cannot be opened.
    """

    __slots__ = ("_descriptor", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        """
        Write to the end.

        Raises:
            OSError: If not all of it could be written. What was is taken back.
        """
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except BaseException:
            # Half a line would make the next one unreadable, so it is cut off again.
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += written

    def cut(self, size: int) -> None:
        """Shorten the file, to take away what a crash has left at its end."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; nothing more can be appended."""
        os.close(self._descriptor)
