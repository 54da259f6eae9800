"""Bytes by name, spilled into a temporary file, so that memory does not grow with their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from .sorting import NoRoomError

__all__ = ("Spilled",)

_PAGES_KB = 8_000


class Spilled:
    """Keep bytes by name in a temporary file of SQLite's, which is gone when this is."""

    def __init__(self) -> None:
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
        rows = [(_encoded(name), data) for name, data in written.items()]
        try:
            self._database.execute("begin")
            self._database.executemany("insert or replace into spilled values (?, ?)", rows)
            self._database.execute("commit")
        except sqlite3.Error as error:
            raise NoRoomError(str(error)) from error

    def get(self, name: str) -> bytes | None:
        """Give what is kept under a name, or None."""
        found = self._database.execute("select data from spilled where name = ?", (_encoded(name),))
        row = found.fetchone()
        return None if row is None else bytes(row[0])

    def drop(self, name: str) -> None:
        """Keep nothing under a name any more."""
        self._database.execute("delete from spilled where name = ?", (_encoded(name),))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for name, data in self._database.execute("select name, data from spilled"):
            yield name.decode("utf-8", "surrogatepass"), data

    def __del__(self) -> None:
        self._database.close()


def _encoded(name: str) -> bytes:
    # A name from a log is any text, and half a character is none that a database takes.
    return name.encode("utf-8", "surrogatepass")
