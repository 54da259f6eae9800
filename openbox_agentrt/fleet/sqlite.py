"""
A store in one file, for the workers of one machine.

A transaction takes the file's own lock and, before that, the lock of a second file, whose waiters the system
serves as they come: SQLite's own way of waiting lets some starve. Both are taken in a thread of the worker's,
never in an event loop.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from .errors import FleetConfigError
from .fleet import PATIENCE, Fleet
from .forking import watch
from .halts import HaltRows
from .judge.in_memory import wall_clock
from .judge.ledger import Ledger
from .judge.sql_tables import SCHEMA, SqlTables
from .steps import NoAnswerError, Step, StepAnswer, StoreLine
from .wire import WirePlan
from .worker import OnOutage

if sys.platform != "win32":
    import fcntl


Synchronous = Literal["normal", "full"]

SWEPT_AT_ONCE = 100
"""Sessions, cells and leases that are deleted in one transaction, which keeps all workers waiting."""

_HALTS = "create table if not exists halt(id text primary key, told blob) without rowid"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SqliteFleet(Fleet):
    """
    Share contracts between the workers of one machine, in a file.

    The file is made if it is not there. It must not lie on a network share.

    Args:
        path: The file.
        lease_seconds: See `Fleet`.
        on_outage: See `Fleet`.
        timeout_seconds: See `Fleet`.
        synchronous: `full` keeps what was acknowledged through a loss of power; `normal` may lose the last
            moments then, and nothing when a process is killed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lease_seconds: float = 30,
        on_outage: OnOutage = "refuse",
        timeout_seconds: float = PATIENCE,
        synchronous: Synchronous = "normal",
    ) -> None:
        super().__init__(lease_seconds=lease_seconds, on_outage=on_outage, timeout_seconds=timeout_seconds)
        if synchronous not in ("normal", "full"):
            raise FleetConfigError(f"synchronous is {synchronous!r}: write 'normal' or 'full'")
        self.path = Path(path).absolute()
        self._synchronous: Synchronous = synchronous

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def _connect(self) -> StoreLine:
        return self._line()

    def _halt_rows(self) -> HaltRows:
        return SqliteHalts(self._line())

    def _line(self) -> SqliteLine:
        return SqliteLine(self.path, timeout_seconds=self.timeout_seconds, synchronous=self._synchronous)


class SqliteLine:
    """
    One connection to the file.

    Attributes:
        in_use: Held during a transaction.

    Args:
        path: The file.
        timeout_seconds: How long to wait for whoever has locked it.
        synchronous: How SQLite writes.
        clock: The time in microseconds.
        create: Whether to make a file that is not there.
    """

    def __init__(
        self,
        path: Path,
        *,
        timeout_seconds: float = PATIENCE,
        synchronous: Synchronous = "normal",
        clock: Callable[[], int] = wall_clock,
        create: bool = True,
    ) -> None:
        self._path = path
        self._timeout = timeout_seconds
        self._synchronous = synchronous
        self._clock = clock
        self._create = create
        self._db: sqlite3.Connection | None = None
        self._gate: int | None = None
        self._file: tuple[int, int] | None = None
        self.in_use = threading.Lock()
        watch(self)

    def run(self, steps: Sequence[Step]) -> list[StepAnswer]:
        if not steps:
            return []
        with self.transaction() as tables:
            now = self._clock()
            return [Ledger(tables, now).take(step) for step in steps]

    def open_leases(self, worker: str) -> dict[str, WirePlan]:
        with self.transaction() as tables:
            return tables.open_leases(worker)

    def tell(self, names: dict[str, bytes]) -> None:
        with self.transaction() as tables:
            tables.tell(names)

    def sweep(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while True:
            # At the end of a day, all of its cells are over: in between, calls have their turn.
            with self.transaction() as tables:
                is_more = tables.sweep(self._clock(), SWEPT_AT_ONCE)
            if not is_more or time.monotonic() >= until:
                return is_more

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        if self._gate is not None:
            os.close(self._gate)
        self._db = self._gate = self._file = None

    @contextmanager
    def transaction(self) -> Iterator[SqlTables]:
        """
        Hold the file's lock, and keep what was written, or nothing of it after an error.

        Raises:
            NoAnswerError: The file cannot be read or written now.
            FleetConfigError: It is no store, or another machine's.
        """
        try:
            with self.in_use:
                db = self._open()
                with self._turn(), _begun(db):
                    tables = SqlTables(db)
                    yield tables
                    tables.write()
        except (sqlite3.Error, OSError) as error:
            self.close()
            if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
                raise FleetConfigError(f"{str(self._path)!r} is no SQLite file") from error
            raise NoAnswerError(f"{str(self._path)!r}: {error}", slow="locked" in str(error)) from error

    def _open(self) -> sqlite3.Connection:
        if self._db is not None and self._is_there():
            return self._db
        self.close()
        if not self._create and not self._path.exists():
            raise FleetConfigError(f"there is no file {str(self._path)!r}")
        if not self._path.parent.is_dir():
            raise FleetConfigError(f"there is no folder {str(self._path.parent)!r}")
        db = sqlite3.connect(self._path, isolation_level=None, timeout=self._timeout, check_same_thread=False)
        try:
            self._gate = os.open(f"{self._path}.gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with self._turn():
                db.execute("pragma journal_mode=wal")
                db.execute(f"pragma synchronous={self._synchronous}")
                db.executescript(SCHEMA)
                self._claim(SqlTables(db))
        except BaseException:
            db.close()
            self.close()
            raise
        stat = self._path.stat()
        self._db, self._file = db, (stat.st_dev, stat.st_ino)
        return db

    def _is_there(self) -> bool:
        # A file that was removed lives on for those who have it open: two would count apart.
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return False
        return (stat.st_dev, stat.st_ino) == self._file

    def _claim(self, tables: SqlTables) -> None:
        host = _host()
        other = tables.meta("host")
        if other == host:
            return
        if other and tables.someone_lives(self._clock()):
            raise FleetConfigError(
                f"{str(self._path)!r} is in use on another machine, or was until the last start of this one:"
                " a file on a network share is not safe; use redis for many machines"
            )
        tables.set_meta("host", host)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if sys.platform == "win32" or self._gate is None:
            yield
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if self._gate is not None:
                fcntl.flock(self._gate, fcntl.LOCK_UN)


class SqliteHalts:
    """Keep halts in a table of a file."""

    def __init__(self, line: SqliteLine) -> None:
        self._line = line

    def read(self) -> dict[str, bytes]:
        with self._line.transaction() as tables:
            tables.read(_HALTS)
            return dict(tables.read("select id, told from halt"))

    def keep(self, name: str, told: bytes) -> None:
        with self._line.transaction() as tables:
            tables.read(_HALTS)
            tables.read("insert or replace into halt values(?, ?)", name, told)

    def close(self) -> None:
        self._line.close()


@contextmanager
def _begun(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        # Where the disk is full, SQLite has done so itself: then that is the reason to be told.
        if db.in_transaction:
            db.execute("rollback")
        raise


def _host() -> str:
    """Name this machine since its last start."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        # Elsewhere a start cannot be told from the next one; another machine can.
        return f"{platform.node()}-{uuid.getnode():x}"
