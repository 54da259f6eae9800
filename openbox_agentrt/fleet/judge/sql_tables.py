"""Tables in SQLite, within a transaction that the line opens and ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from ..steps import LeaseState
from ..wire import WireCell, WirePlan
from .cell import CellState, Saved, Ticket
from .tables import LeaseRow, SessionRow, WorkerRow

SCHEMA = """
create table if not exists meta(k text primary key, v text) without rowid;
create table if not exists worker(id text primary key, until integer, ops integer) without rowid;
create table if not exists lease(id text primary key, s text, w text, q blob, t blob,
  dies integer, note text) without rowid;
create index if not exists lease_open on lease(w) where s in ('r', 's');
create index if not exists lease_dies on lease(dies) where dies is not null;
create table if not exists cell(id text primary key, live integer, done integer, total integer,
  unread integer, unread_by text, now integer, period integer, given integer, last integer,
  dies integer) without rowid;
create index if not exists cell_dies on cell(dies) where dies is not null;
create table if not exists bucket(cell text, at text, edge integer, value integer,
  primary key(cell, at)) without rowid;
create index if not exists bucket_edge on bucket(cell, edge);
create table if not exists about(id text primary key, told blob) without rowid;
create table if not exists session(id text primary key, birth text, owner text, version integer,
  writer text, ended integer, dies integer) without rowid;
create index if not exists session_dies on session(dies);
create table if not exists piece(session text, name text, value text,
  primary key(session, name)) without rowid;
"""

# What ends, and where its parts are.
_ENDING = {"session": "piece", "cell": "bucket", "lease": None}
_GRACE = 60_000_000
_PLANS = msgspec.json.Decoder(WirePlan)
_TICKETS = msgspec.json.Decoder(tuple[Ticket, ...])
_ENCODE = msgspec.json.Encoder().encode
# The columns of a cell between its id and its end, which are the numbers of `Saved`.
_NUMBERS = "live, done, total, unread, unread_by, now, period, given, last"
_numbers_of = attrgetter(*_NUMBERS.split(", "))


class SqlRows:
    """Rows of one cell."""

    def __init__(self, db: sqlite3.Connection, cell: str) -> None:
        self._db = db
        self._cell = cell

    def get(self, at: str) -> tuple[int, int] | None:
        sql = "select edge, value from bucket where cell=? and at=?"
        row: tuple[int, int] | None = self._db.execute(sql, (self._cell, at)).fetchone()
        return row

    def set(self, at: str, edge: int, value: int) -> None:
        self._db.execute("insert or replace into bucket values(?,?,?,?)", (self._cell, at, edge, value))

    def drop(self, at: str) -> None:
        self._db.execute("delete from bucket where cell=? and at=?", (self._cell, at))

    def clear(self) -> None:
        self._db.execute("delete from bucket where cell=?", (self._cell,))

    def size(self) -> int:
        row = self._db.execute("select count(*) from bucket where cell=?", (self._cell,)).fetchone()
        return int(row[0])

    def older(self, than: int) -> list[tuple[str, int]]:
        sql = "select at, value from bucket where cell=? and edge<?"
        return self._db.execute(sql, (self._cell, than)).fetchall()

    def all(self) -> list[tuple[int, int]]:
        sql = "select edge, value from bucket where cell=? order by edge, value"
        return self._db.execute(sql, (self._cell,)).fetchall()

    def first(self) -> tuple[str, int]:
        sql = "select at, edge from bucket where cell=? order by edge, at limit 1"
        row: tuple[str, int] = self._db.execute(sql, (self._cell,)).fetchone()
        return row

    def bound(self, latest: int) -> None:
        """Let no edge be later."""
        self._db.execute("update bucket set edge=min(edge, ?) where cell=?", (latest, self._cell))


class SqlTables:
    """
    The rows of one file, over one connection, within one transaction.

    Several steps are often taken in one. What all of them look at - the store's generation, the worker, the
    numbers of cells - is read once, and written once, by `write`.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._meta: dict[str, str] = {}
        self._workers: dict[str, WorkerRow | None] = {}
        self._cells: dict[str, Saved] = {}
        self._new_workers: dict[str, WorkerRow] = {}
        self._new_cells: dict[str, CellState] = {}

    def write(self) -> None:
        """Write what was changed. Whoever ends the transaction calls it before."""
        workers = [(name, row.until, row.ops) for name, row in self._new_workers.items()]
        if workers:
            self._db.executemany("insert or replace into worker values(?,?,?)", workers)
        if self._new_cells:
            cells = self._new_cells.items()
            rows = [(name, *_numbers_of(cell.saved), _dies(cell)) for name, cell in cells]
            self._db.executemany("insert or replace into cell values(?,?,?,?,?,?,?,?,?,?,?)", rows)
        self._new_workers, self._new_cells = {}, {}

    def generation(self) -> str:
        return self.meta("generation")

    def set_generation(self, generation: str) -> None:
        self.set_meta("generation", generation)

    def lost_at(self) -> int:
        return int(self.meta("lost") or 0)

    def set_lost_at(self, at: int) -> None:
        self.set_meta("lost", str(at))

    def meta(self, key: str) -> str:
        """Read what is kept about the store; empty if nothing is."""
        if key not in self._meta:
            row = self._db.execute("select v from meta where k=?", (key,)).fetchone()
            self._meta[key] = "" if row is None else str(row[0])
        return self._meta[key]

    def set_meta(self, key: str, value: str) -> None:
        """Keep something about the store."""
        self._meta[key] = value
        self._db.execute("insert or replace into meta values(?,?)", (key, value))

    def worker(self, worker: str) -> WorkerRow | None:
        if worker not in self._workers:
            row = self._db.execute("select until, ops from worker where id=?", (worker,)).fetchone()
            self._workers[worker] = None if row is None else WorkerRow(*row)
        return self._workers[worker]

    def set_worker(self, worker: str, row: WorkerRow) -> None:
        self._workers[worker] = self._new_workers[worker] = row

    def drop_worker(self, worker: str) -> None:
        self._workers[worker] = None
        self._new_workers.pop(worker, None)
        self._db.execute("delete from worker where id=?", (worker,))

    def overdue(self, now: int) -> tuple[str, ...]:
        self.write()
        rows = self._db.execute("select id from worker where until<? limit 16", (now,)).fetchall()
        return tuple(str(row[0]) for row in rows)

    def has_open(self, worker: str) -> bool:
        sql = "select 1 from lease where w=? and s in ('r', 's') limit 1"
        return self._db.execute(sql, (worker,)).fetchone() is not None

    def open_leases(self, worker: str) -> dict[str, WirePlan]:
        """List what a worker has not finished."""
        sql = "select id, q from lease where w=? and s in ('r', 's')"
        return {str(name): _PLANS.decode(plan) for name, plan in self._db.execute(sql, (worker,)).fetchall()}

    def lease(self, lease: str) -> LeaseRow | None:
        row = self._db.execute("select s, w, q, t, note from lease where id=?", (lease,)).fetchone()
        if row is None:
            return None
        plan = None if row[2] is None else _PLANS.decode(row[2])
        tickets = () if plan is None else _TICKETS.decode(row[3])
        return LeaseRow(row[0], row[1], plan, tickets, row[4])

    def add_lease(self, lease: str, row: LeaseRow, dies: int | None) -> None:
        plan = None if row.plan is None else _ENCODE(row.plan)
        values = (lease, row.state, row.worker, plan, _ENCODE(row.tickets), dies, row.note)
        self._db.execute("insert into lease values(?,?,?,?,?,?,?)", values)

    def set_state(self, lease: str, state: LeaseState, dies: int | None) -> None:
        if state in ("c", "f"):
            sql = "update lease set s=?, dies=?, q=null, t=null where id=?"
        else:
            sql = "update lease set s=?, dies=? where id=?"
        self._db.execute(sql, (state, dies, lease))

    def set_owner(self, lease: str, worker: str) -> None:
        self._db.execute("update lease set w=? where id=?", (worker, lease))

    def set_note(self, lease: str, note: str) -> None:
        self._db.execute("update lease set note=? where id=?", (note, lease))

    def cell(self, spec: WireCell, now: int) -> CellState:
        if spec.id not in self._cells:
            self._cells[spec.id] = self._saved(spec.id) or Saved()
        return CellState(spec, self._cells[spec.id], SqlRows(self._db, spec.id), now)

    def save(self, cell: CellState) -> None:
        cell.saved.now = cell.now
        self._cells[cell.spec.id] = cell.saved
        self._new_cells[cell.spec.id] = cell

    def _saved(self, cell: str) -> Saved | None:
        row = self._db.execute(f"select {_NUMBERS} from cell where id=?", (cell,)).fetchone()
        return None if row is None else Saved(*row)

    def mend(self, cell: str, now: int) -> bool:
        self.write()
        self._cells.pop(cell, None)
        kept = self._saved(cell)
        if kept is None:
            return False
        kept.mend(now)
        self._db.execute(
            "update cell set unread=?, now=?, period=?, last=? where id=?",
            (kept.unread, kept.now, kept.period, kept.last, cell),
        )
        SqlRows(self._db, cell).bound(now)
        return True

    def session(self, name: str, now: int) -> SessionRow | None:
        sql = "select birth, owner, version, writer, ended from session where id=? and dies>=?"
        row = self._db.execute(sql, (name, now)).fetchone()
        if row is None:
            return None
        birth, owner, version, writer, ended = row
        return SessionRow(birth, owner, version, writer, bool(ended))

    def set_session(self, name: str, row: SessionRow, dies: int) -> None:
        self._db.execute(
            "insert or replace into session values(?,?,?,?,?,?,?)",
            (name, row.birth, row.owner, row.version, row.writer, row.ended, dies),
        )

    def pieces(self, name: str) -> dict[str, str]:
        return dict(self._db.execute("select name, value from piece where session=?", (name,)).fetchall())

    def change_pieces(self, name: str, changed: Mapping[str, str], dropped: Iterable[str]) -> None:
        if changed:
            rows = [(name, piece, value) for piece, value in changed.items()]
            self._db.executemany("insert or replace into piece values(?,?,?)", rows)
        for piece in dropped:
            self._db.execute("delete from piece where session=? and name=?", (name, piece))

    def clear_pieces(self, name: str) -> None:
        self._db.execute("delete from piece where session=?", (name,))

    def someone_lives(self, now: int) -> bool:
        """Tell whether a worker's lease still runs. A lease that waits for a person needs no worker."""
        sql = "select 1 from worker where until>=? and id not like 'parked-%' limit 1"
        return self._db.execute(sql, (now,)).fetchone() is not None

    def read(self, sql: str, *values: object) -> list[Any]:
        """Read rows for people who look."""
        self.write()
        return self._db.execute(sql, values).fetchall()

    def tell(self, names: dict[str, bytes]) -> None:
        """Keep what cells are about."""
        self._db.executemany("insert or replace into about values(?,?)", names.items())

    def sweep(self, now: int, most: int) -> bool:
        """
        Delete leases, windows, periods and sessions that are over, so many of each at most.

        Returns whether there are more.
        """
        is_more = False
        for table, part in _ENDING.items():
            over = self._db.execute(f"select id from {table} where dies<? limit ?", (now, most)).fetchall()
            if part is not None:
                self._db.executemany(f"delete from {part} where {table}=?", over)
            self._db.executemany(f"delete from {table} where id=?", over)
            is_more |= len(over) == most
        return is_more


def _dies(cell: CellState) -> int | None:
    if cell.end is not None:
        return cell.end + _GRACE
    # The last bucket may be out a hundredth of the window later.
    return None if cell.spec.w is None else cell.now + cell.spec.w + (cell.spec.b or 0) + _GRACE
