"""The file that a local Core keeps its events in."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from .._picklable import PicklableError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY,
    received_at REAL NOT NULL,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    activity_type TEXT NOT NULL,
    hook INTEGER NOT NULL,
    dedup_key TEXT,
    same_as INTEGER,
    changed INTEGER NOT NULL,
    sdk TEXT,
    agent_did TEXT,
    payload TEXT NOT NULL,
    answer TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_by_key ON events (workflow_id, run_id, dedup_key);
CREATE TABLE IF NOT EXISTS claims (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    dedup_key TEXT NOT NULL,
    until REAL NOT NULL,
    PRIMARY KEY (workflow_id, run_id, dedup_key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    sealed_by TEXT,
    halted TEXT,
    PRIMARY KEY (workflow_id, run_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS approvals (
    id TEXT PRIMARY KEY,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    activity_type TEXT NOT NULL,
    reason TEXT NOT NULL,
    event TEXT NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL,
    state TEXT NOT NULL,
    note TEXT NOT NULL,
    decided_by TEXT NOT NULL DEFAULT '',
    decided_at REAL
);
CREATE INDEX IF NOT EXISTS approvals_by_activity ON approvals (workflow_id, run_id, activity_id);
CREATE TABLE IF NOT EXISTS halts (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    reason TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS refused (
    seq INTEGER PRIMARY KEY,
    received_at REAL NOT NULL,
    path TEXT NOT NULL,
    status INTEGER NOT NULL,
    message TEXT NOT NULL
);
"""


# "obxc", so that a file of another program is not taken for one of ours.
_APPLICATION_ID = 0x6F627863


class StoreError(PicklableError, ValueError):
    """
    A file cannot hold the events of a local Core. Nothing was changed in it.

    Attributes:
        path: The file, as it was given.
        problem: What is wrong with it.
    """

    def __init__(self, *, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"database {path}: {problem}")


def open_database(path: str) -> sqlite3.Connection:
    """
    Open the database at `path`, making it if there is none.

    Raises:
        StoreError: The file cannot be opened, or belongs to something else.
    """
    _prepare(path)
    try:
        # Another process may decide an approval at any moment, so wait for it rather than fail.
        database = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
    except sqlite3.Error as error:
        raise StoreError(path=path, problem=str(error)) from error
    try:
        if _is_foreign(database):
            raise StoreError(path=path, problem="is not the database of a local Core")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.executescript(_SCHEMA)
        database.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    except sqlite3.Error as error:
        database.close()
        raise StoreError(path=path, problem=str(error)) from error
    except StoreError:
        database.close()
        raise
    return database


def _is_foreign(database: sqlite3.Connection) -> bool:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    if application == _APPLICATION_ID:
        return False
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables)


def _prepare(path: str) -> None:
    try:
        # The file holds prompts and tool arguments, so it is the owner's alone from the first byte.
        Path(path).touch(mode=0o600, exist_ok=True)
    except OSError as error:
        raise StoreError(path=path, problem=(error.strerror or type(error).__name__).lower()) from error
    except ValueError as error:
        # A NUL in the name.
        raise StoreError(path=path, problem="is not a name that a file can have") from error
