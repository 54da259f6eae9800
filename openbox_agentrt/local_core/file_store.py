"""Keep what a local Core remembers in a file, with SQLite."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from .._halt import Halt, HaltKind
from .approvals import Approval, State
from .database import open_database
from .halts import Opening
from .records import Answered, Record, RefusedRequest, RunEnd, RunHistory, decoded
from .wire import Event

# The columns of an approval have the names of its attributes.
_APPROVAL_FIELDS = tuple(field.name for field in fields(Approval))
APPROVAL_COLUMNS = ", ".join(_APPROVAL_FIELDS)


class FileEventStore:
    """
    Keep events in one SQLite database. Other processes may use the file at the same time.

    Raises:
        StoreError: The file cannot be opened, or belongs to something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._db = open_database(self._path)

    def start_anew(self) -> None:
        # SQLite cannot be used across a fork. The parent's connection is kept and left alone: closing it here
        # would release locks that the parent counts on.
        self._parents = self._db
        self._db = open_database(self._path)

    def close(self) -> None:
        self._db.close()

    def run_end(self, workflow_id: str, run_id: str) -> RunEnd:
        row = self._db.execute(
            "SELECT sealed_by, halted FROM sessions WHERE workflow_id = ? AND run_id = ?",
            (workflow_id, run_id),
        ).fetchone()
        return RunEnd(*row) if row else RunEnd()

    def set_run_end(self, workflow_id: str, run_id: str, end: RunEnd) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)",
            (workflow_id, run_id, end.sealed_by, end.halted),
        )

    def first(self, event: Event) -> Answered | None:
        """Find the first event with the ids of `event`."""
        row = self._db.execute(
            "SELECT seq, payload, answer FROM events"
            " WHERE workflow_id = ? AND run_id = ? AND dedup_key = ? ORDER BY seq LIMIT 1",
            (event.workflow_id, event.run_id, event.key),
        ).fetchone()
        return None if row is None else Answered(row[0], row[1].encode(), row[2].encode())

    def add(
        self,
        event: Event,
        answer: bytes,
        *,
        now: float,
        caller: Mapping[str, str],
        same_as: int | None = None,
        changed: bool = False,
    ) -> None:
        self._db.execute(
            "INSERT INTO events (received_at, workflow_id, run_id, event_type, activity_id, activity_type,"
            " hook, dedup_key, same_as, changed, sdk, agent_did, payload, answer)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                now,
                event.workflow_id,
                event.run_id,
                event.event_type,
                event.activity_id,
                event.activity_type,
                event.hook,
                event.key,
                same_as,
                changed,
                caller.get("sdk"),
                caller.get("agent_did"),
                event.body.decode(),
                answer.decode(),
            ),
        )
        if event.key is not None:
            self._db.execute(
                "DELETE FROM claims WHERE workflow_id = ? AND run_id = ? AND dedup_key = ?",
                (event.workflow_id, event.run_id, event.key),
            )

    def history(self, workflow_id: str, run_id: str, *, latest: int) -> RunHistory:
        """Look back on a run; at most so many of its events are whole."""
        run = "WHERE workflow_id = ? AND run_id = ? AND same_as IS NULL"
        rows = self._db.execute(
            f"SELECT payload FROM events {run} ORDER BY seq DESC LIMIT ?", (workflow_id, run_id, latest)
        ).fetchall()
        counts = self._db.execute(
            f"SELECT event_type, activity_type, count(*) FROM events {run} GROUP BY 1, 2",
            (workflow_id, run_id),
        ).fetchall()
        totals: dict[str, dict[str, int]] = {}
        for event_type, activity_type, count in counts:
            totals.setdefault(event_type, {})[activity_type] = count
        missing = sum(count for _, _, count in counts) - len(rows)
        bodies = [row[0].encode() for row in reversed(rows)]
        return RunHistory(bodies=bodies, missing=missing, totals=totals)

    def claim(self, event: Event, *, now: float, until: float) -> bool:
        """
        Reserve the judging of `event`, and tell whether that was possible.

        It is not while somebody else, in this process or in another, judges an event with the same ids. What
        was reserved is free again when the event is added, at the latest when `until` has come.
        """
        cursor = self._db.execute(
            "INSERT INTO claims VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET until = excluded.until"
            " WHERE until <= ?",
            (event.workflow_id, event.run_id, event.key, until, now),
        )
        return cursor.rowcount == 1

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make what is read and written meanwhile one step, also for other processes."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def records(self, workflow_id: str | None = None) -> list[Record]:
        where, values = ("", ()) if workflow_id is None else (" WHERE workflow_id = ?", (workflow_id,))
        rows = self._db.execute(f"SELECT {RECORD_COLUMNS} FROM events{where} ORDER BY seq", values)
        return [record_of(row) for row in rows]

    def moves(self) -> Iterator[tuple[str, str, str, str, str, bool]]:
        """Yield ids, type, activity and "is a mere retry" of every event that is no hook, in order."""
        rows = self._db.execute(
            "SELECT workflow_id, run_id, event_type, activity_id, activity_type,"
            " same_as IS NOT NULL AND NOT changed FROM events WHERE NOT hook ORDER BY seq"
        )
        for row in rows.fetchall():
            yield (*row[:5], bool(row[5]))

    def add_halt(self, halt: Halt) -> None:
        self._db.execute(
            "INSERT INTO halts (kind, value, reason, decided_by, at) VALUES (?, ?, ?, ?, ?)",
            (halt.kind, halt.value, halt.reason, halt.by, halt.at),
        )

    def lift_halt(self, kind: HaltKind, value: str) -> int:
        """Forget halts; returns how many there were."""
        return self._db.execute("DELETE FROM halts WHERE kind = ? AND value = ?", (kind, value)).rowcount

    def halts(self) -> list[Halt]:
        """List the halts in force, oldest first."""
        rows = self._db.execute(f"SELECT {HALT_COLUMNS} FROM halts ORDER BY seq")
        return [halt_from(row) for row in rows]

    def opening(self, workflow_id: str) -> Opening | None:
        """Find the run of a workflow and its first event; None if there is none."""
        row = self._db.execute(
            "SELECT run_id, payload FROM events WHERE workflow_id = ? ORDER BY seq LIMIT 1", (workflow_id,)
        ).fetchone()
        return None if row is None else (row[0], decoded(row[1].encode()))

    def halt_on(self, subjects: Sequence[tuple[HaltKind, str]]) -> Halt | None:
        """Find the first halt that is about one of `subjects`."""
        row = self._db.execute(*halt_query(subjects)).fetchone()
        return None if row is None else halt_from(row)

    def refuse(self, request: RefusedRequest) -> None:
        self._db.execute(
            "INSERT INTO refused (received_at, path, status, message) VALUES (?, ?, ?, ?)",
            (request.received_at, request.path, request.status, request.message),
        )

    def refused(self) -> list[RefusedRequest]:
        rows = self._db.execute("SELECT received_at, path, status, message FROM refused ORDER BY seq")
        return [RefusedRequest(received_at=r[0], path=r[1], status=r[2], message=r[3]) for r in rows]

    def add_approval(self, approval: Approval) -> None:
        values = [getattr(approval, name) for name in _APPROVAL_FIELDS]
        values[_APPROVAL_FIELDS.index("event")] = json.dumps(approval.event)
        self._db.execute(
            f"INSERT INTO approvals ({APPROVAL_COLUMNS}) VALUES ({', '.join('?' * len(values))})",
            values,
        )

    def approvals(self, **wanted: str) -> list[Approval]:
        """List the approvals with the given values of `Approval`'s attributes, oldest first."""
        where = "".join(f" AND {name} = ?" for name in wanted)
        rows = self._db.execute(
            f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE 1{where} ORDER BY rowid",
            tuple(wanted.values()),
        )
        return [approval_of(row) for row in rows]

    def decide(self, approval_id: str, state: State, *, note: str, by: str, now: float) -> bool:
        """Write a decision down, unless there is one. Says whether it was written."""
        cursor = self._db.execute(
            "UPDATE approvals SET state = ?, note = ?, decided_by = ?, decided_at = ?"
            " WHERE id = ? AND state = 'pending'",
            (state, note, by, now, approval_id),
        )
        return cursor.rowcount == 1


RECORD_COLUMNS = "seq, received_at, payload, answer, same_as, changed, sdk, agent_did"


def record_of(row: Sequence[Any]) -> Record:
    """Make a record of a row with `RECORD_COLUMNS`."""
    return Record(
        seq=row[0],
        received_at=row[1],
        event=decoded(row[2].encode()),
        answer=json.loads(row[3]),
        same_as=row[4],
        changed=bool(row[5]),
        caller=_known(sdk=row[6], agent_did=row[7]),
    )


HALT_COLUMNS = "kind, value, reason, decided_by, at"


def halt_query(subjects: Sequence[tuple[HaltKind, str]]) -> tuple[str, list[str]]:
    """Ask for the first halt that is about one of `subjects`."""
    where = " OR ".join("(kind = ? AND value = ?)" for _ in subjects)
    values = [part for subject in subjects for part in subject]
    return f"SELECT {HALT_COLUMNS} FROM halts WHERE {where} ORDER BY seq LIMIT 1", values


def halt_from(row: Sequence[Any]) -> Halt:
    """Make a halt of a row with `HALT_COLUMNS`."""
    return Halt(kind=row[0], value=row[1], reason=row[2], by=row[3], at=row[4])


def approval_of(row: Sequence[Any]) -> Approval:
    """Make an approval of a row with `APPROVAL_COLUMNS`."""
    read = dict(zip(_APPROVAL_FIELDS, row, strict=True))
    return Approval(**{**read, "event": json.loads(read["event"])})


def _known(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
