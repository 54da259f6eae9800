"""Any number of things in an order of their own: what does not fit into memory waits in temporary files."""

from __future__ import annotations

import heapq
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from operator import itemgetter
from typing import IO, Any, TypeVar

from .._picklable import PicklableError

__all__ = ("NoRoomError", "in_order")

IN_MEMORY = 2**25
"""How many bytes of them are put in order in memory."""

T = TypeVar("T")


class NoRoomError(PicklableError, RuntimeError):
    """
    What waits in temporary files has no room. Nothing was judged to the end.

    Attributes:
        reason: What the system says.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the temporary folder has no room ({reason}): set TMPDIR to a folder that has")


def in_order(items: Iterable[T], by: Callable[[T], Any]) -> Iterator[T]:
    """
    Give things in the order of their keys; those with the same key as they came.

    Args:
        items: The things, which can be pickled.
        by: Gives the key of one.

    Raises:
        NoRoomError: The temporary folder has no room for them.
    """
    with ExitStack() as stack:
        runs: list[Iterator[T]] = []
        for chunk, is_last in _chunks(items, by):
            if is_last:
                runs.append(map(pickle.loads, chunk))
                continue
            file = stack.enter_context(tempfile.TemporaryFile())
            _write(file, chunk)
            runs.append(_read_back(file))
        yield from heapq.merge(*runs, key=by)


def _chunks(items: Iterable[T], by: Callable[[T], Any]) -> Iterator[tuple[list[bytes], bool]]:
    """Write things down, and give as many as fit into memory in their order; say which are the last."""
    chunk: list[tuple[Any, bytes]] = []
    size = 0
    for item in items:
        data = pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
        chunk.append((by(item), data))
        size += len(data)
        if size > IN_MEMORY:
            yield _sorted(chunk), False
            chunk, size = [], 0
    yield _sorted(chunk), True


def _write(file: IO[bytes], chunk: list[bytes]) -> None:
    left = memoryview(b"".join(chunk))
    try:
        # Past the buffer of the file, which would try again when it is closed.
        while left:
            left = left[os.write(file.fileno(), left) :]
    except OSError as error:
        raise NoRoomError((error.strerror or "error").lower()) from error


def _sorted(chunk: list[tuple[Any, bytes]]) -> list[bytes]:
    chunk.sort(key=itemgetter(0))
    return [data for _, data in chunk]


def _read_back(file: IO[bytes]) -> Iterator[Any]:
    file.seek(0)
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return
