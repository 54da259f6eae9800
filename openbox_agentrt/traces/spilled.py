"""Bytes by name, spilled into a temporary file, so that memory does not grow with their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from .sorting import NoRoomError

__all__ = ("Spilled",)

IN_MEMORY = 2**24
"""How many bytes of them wait in memory before they go to the file."""

_PAGES_KB = 8_000
_ROW = 200


class Spilled:
    """
    Keep bytes by name.

    Those that came last wait in memory, and the others in a temporary file of SQLite's, which is gone when
    this is.
    """

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._size = 0
        self._database = sqlite3.connect("", isolation_level=None)
        # Nothing of it is needed after a crash.
        for pragma in ("journal_mode = off", "synchronous = off", f"cache_size = -{_PAGES_KB}"):
            self._database.execute(f"pragma {pragma}")
        self._database.execute("create table spilled (name blob primary key, data blob)")

    def put(self, written: Mapping[str, bytes]) -> None:
        """
        Keep what was written under each name, in place of what was there before.

        Raises:
            NoRoomError: There is no room for it.
        """
        self._held.update(written)
        self._size += sum(map(len, written.values())) + len(written) * _ROW
        if self._size > IN_MEMORY:
            self._write()

    def get(self, name: str) -> bytes | None:
        """Give what is kept under a name, or None."""
        held = self._held.get(name)
        if held is not None:
            return held
        found = self._database.execute("select data from spilled where name = ?", (_encoded(name),))
        row = found.fetchone()
        return None if row is None else bytes(row[0])

    def drop(self, name: str) -> None:
        """Keep nothing under a name any more."""
        self._held.pop(name, None)
        self._database.execute("delete from spilled where name = ?", (_encoded(name),))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        yield from list(self._held.items())
        for written, data in self._database.execute("select name, data from spilled"):
            name = written.decode("utf-8", "surrogatepass")
            if name not in self._held:
                yield name, data

    def __del__(self) -> None:
        self._database.close()

    def _write(self) -> None:
        rows = [(_encoded(name), data) for name, data in self._held.items()]
        try:
            self._database.execute("begin")
            self._database.executemany("insert or replace into spilled values (?, ?)", rows)
            self._database.execute("commit")
        except sqlite3.Error as error:
            raise NoRoomError(str(error)) from error
        self._held.clear()
        self._size = 0


def _encoded(name: str) -> bytes:
    # A name from a log is any text, and half a character is none that a database takes.
    return name.encode("utf-8", "surrogatepass")
