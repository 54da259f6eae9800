"""The file of a local Core, read beside whoever writes it: for pages that show what happens."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .approvals import Approval
from .database import StoreError
from .file_store import APPROVAL_COLUMNS, RECORD_COLUMNS, approval_of, halt_from, halt_query, record_of
from .records import Record

# Rows that are a question about work, first time asked. A hook is about an operation inside that work.
_ASKS = (
    "NOT hook AND same_as IS NULL AND (event_type = 'ActivityStarted' OR"
    " (event_type = 'SignalReceived' AND json_extract(payload, '$.signal_name') = 'user_prompt'))"
)
# Core is told of a call that contracts refused by a signal, since it was not asked about it.
_REFUSED_BY_CONTRACTS = (
    "event_type = 'SignalReceived' AND same_as IS NULL"
    " AND json_extract(payload, '$.contract_violation.enforced')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEvent:
    """
    An event in short: what it is and what was answered, and nothing of its content.

    Attributes:
        seq: Its number.
        asks: Whether work waited for the answer.
        contracts: The contracts that refused a call, where it tells of that.
    """

    seq: int
    received_at: float
    workflow_id: str
    run_id: str
    event_type: str
    activity_id: str
    activity_type: str
    verdict: str
    reason: str
    policy_id: str
    asks: bool
    contracts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """
    A run in short.

    Attributes:
        events: How many events it has.
        last: Number of its latest event.
        sealed_by: The event that ended it; None while it is open.
        halted: Why it was halted; None if it was not.
    """

    workflow_id: str
    run_id: str
    events: int
    last: int
    started_at: float
    last_at: float
    agent: str
    session: str
    sealed_by: str | None
    halted: str | None

    @property
    def open(self) -> bool:
        """Tell whether more may come."""
        return self.sealed_by is None and self.halted is None


class CoreReader:
    """
    Ask the database of a local Core, read-only, while others write it. Any thread may use it.

    Args:
        hide: Puts marks in the place of secrets in what a policy has said.

    Raises:
        StoreError: There is no such file, or it is not the database of a local Core.
    """

    def __init__(self, path: str | os.PathLike[str], *, hide: Callable[[str], str] = str) -> None:
        self._hide = hide
        self.path = os.fspath(path)
        self._lock = threading.Lock()
        if not Path(self.path).is_file():
            raise StoreError(path=self.path, problem="no such file")
        try:
            self._db = sqlite3.connect(
                f"file:{quote(os.path.abspath(self.path))}?mode=ro",
                uri=True,
                check_same_thread=False,
                isolation_level=None,
                timeout=5,
            )
        except sqlite3.Error as error:
            raise StoreError(path=self.path, problem=str(error)) from error
        try:
            self._db.execute("SELECT 1 FROM approvals LIMIT 1")
        except sqlite3.Error as error:
            self._db.close()
            raise StoreError(path=self.path, problem="is not the database of a local Core") from error

    def close(self) -> None:
        """Close the connection to the database. May be called twice."""
        with self._lock:
            self._db.close()

    def version(self) -> int:
        """Give a number that changes whenever somebody else has written to the file. Costs microseconds."""
        return int(self._one("PRAGMA data_version")[0])

    def latest(self) -> int:
        """Give the number of the latest event, 0 if there is none."""
        return int(self._one("SELECT coalesce(max(seq), 0) FROM events")[0])

    def latest_at(self) -> float | None:
        """Say when the latest event came; None if there is none."""
        rows = self._all("SELECT received_at FROM events ORDER BY seq DESC LIMIT 1")
        return float(rows[0][0]) if rows else None

    def first_since(self, moment: float) -> int:
        """Find the number of the first event that came at `moment` or later, or the next that will come."""
        low, high = 1, self.latest() + 1
        while low < high:
            middle = (low + high) // 2
            row = self._all("SELECT received_at FROM events WHERE seq >= ? ORDER BY seq LIMIT 1", (middle,))
            low, high = (low, middle) if row and row[0][0] >= moment else (middle + 1, high)
        return low

    def events(self, *, after: int, limit: int = 1000) -> list[SeenEvent]:
        """List the events that come after number `after`, in order."""
        rows = self._all(
            "SELECT seq, received_at, workflow_id, run_id, event_type, activity_id, activity_type,"
            " json_extract(answer, '$.verdict'), json_extract(answer, '$.reason'),"
            f" json_extract(answer, '$.policy_id'), {_ASKS},"
            f" CASE WHEN {_REFUSED_BY_CONTRACTS}"
            " THEN json_extract(payload, '$.contract_violation.contracts') END"
            " FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, limit),
        )
        return [
            SeenEvent(
                seq=row[0],
                received_at=row[1],
                workflow_id=row[2],
                run_id=row[3],
                event_type=row[4],
                activity_id=row[5],
                activity_type=row[6],
                verdict=str(row[7] or ""),
                reason=self._hide(str(row[8] or "")),
                policy_id=str(row[9] or ""),
                asks=bool(row[10]),
                contracts=tuple(json.loads(row[11])) if row[11] else (),
            )
            for row in rows
        ]

    def count_runs(self, *, open_only: bool = False) -> int:
        """Count the runs, or those in which more may come."""
        return int(self._one(f"SELECT count(*) FROM ({_runs(open_only)})")[0])

    def runs(self, *, limit: int, skip: int = 0, open_only: bool = False) -> list[RunRow]:
        """List runs, the one with the latest event first."""
        rows = self._all(f"{_runs(open_only)} ORDER BY last DESC LIMIT ? OFFSET ?", (limit, skip))
        return [self._run(*row) for row in rows]

    def run(self, run_id: str, workflow_id: str | None = None) -> RunRow | None:
        """Find a run by its id; by both at once, which is quicker among many."""
        if workflow_id is None:
            found = self._all("SELECT workflow_id FROM events WHERE run_id = ? LIMIT 1", (run_id,))
            workflow_id = str(found[0][0]) if found else ""
        rows = self._all(
            "SELECT workflow_id, run_id, count(*), min(seq), max(seq) FROM events"
            " WHERE workflow_id = ? AND run_id = ? GROUP BY 1, 2",
            (workflow_id, run_id),
        )
        return self._run(*rows[0]) if rows else None

    def refused_by_contracts(self, run: RunRow) -> int:
        """Count the calls of a run that contracts refused, as far as Core was told."""
        query = (
            f"SELECT count(*) FROM events WHERE workflow_id = ? AND run_id = ? AND {_REFUSED_BY_CONTRACTS}"
        )
        return int(self._one(query, (run.workflow_id, run.run_id))[0])

    def asked_in(self, run: RunRow) -> dict[str, int]:
        """Count what was answered to the questions of a run, by verdict."""
        rows = self._all(
            "SELECT json_extract(answer, '$.verdict'), count(*) FROM events"
            f" WHERE workflow_id = ? AND run_id = ? AND {_ASKS} GROUP BY 1",
            (run.workflow_id, run.run_id),
        )
        return {str(verdict): int(count) for verdict, count in rows}

    def records(self, run: RunRow, *, limit: int) -> list[Record]:
        """List the first events of a run with their answers, repetitions left out."""
        rows = self._all(
            f"SELECT {RECORD_COLUMNS} FROM events"
            " WHERE workflow_id = ? AND run_id = ? AND same_as IS NULL AND NOT hook ORDER BY seq LIMIT ?",
            (run.workflow_id, run.run_id, limit),
        )
        return [record_of(row) for row in rows]

    def ended_with(self, run: RunRow, activity_id: str) -> tuple[str, float | None] | None:
        """Say with which status an activity ended, and after how many seconds; None if it has not."""
        rows = self._all(
            "SELECT json_extract(payload, '$.status'), json_extract(payload, '$.duration_ms') FROM events"
            " WHERE workflow_id = ? AND run_id = ? AND dedup_key = ? LIMIT 1",
            (run.workflow_id, run.run_id, f"ActivityCompleted:{activity_id}"),
        )
        if not rows:
            return None
        status, duration = rows[0]
        return str(status or ""), duration / 1000 if isinstance(duration, int | float) else None

    def count_pending(self, now: float) -> int:
        """Count the approvals that wait."""
        return int(self._one(f"SELECT count(*) FROM approvals WHERE {_PENDING}", (now,))[0])

    def pending(self, now: float, *, limit: int, skip: int = 0) -> list[Approval]:
        """List the approvals that wait, the one that expires first first."""
        order = "expires_at IS NULL, expires_at, rowid LIMIT ? OFFSET ?"
        return self._approvals(f"{_PENDING} ORDER BY {order}", (now, limit, skip))

    def decided(self, now: float, *, since: float, limit: int) -> list[Approval]:
        """List the approvals that were decided or have expired since a moment, the latest first."""
        when = "coalesce(decided_at, expires_at)"
        return self._approvals(
            f"NOT ({_PENDING}) AND {when} >= ? ORDER BY {when} DESC, rowid DESC LIMIT ?", (now, since, limit)
        )

    def approval(self, approval_id: str) -> Approval | None:
        """Find an approval by its id."""
        found = self._approvals("id = ?", (approval_id,))
        return found[0] if found else None

    def approvals_of(self, run: RunRow) -> list[Approval]:
        """List the approvals of a run, oldest first."""
        return self._approvals("workflow_id = ? AND run_id = ? ORDER BY rowid", (run.workflow_id, run.run_id))

    def _approvals(self, where: str, values: Sequence[Any]) -> list[Approval]:
        rows = self._all(f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE {where}", values)
        found = [approval_of(row) for row in rows]
        return [replace(one, reason=self._hide(one.reason)) for one in found]

    def _run(self, workflow_id: str, run_id: str, events: int, first: int, last: int) -> RunRow:
        began = self._one(
            "SELECT received_at, json_extract(payload, '$.agent_name'),"
            " json_extract(payload, '$.workflow_type'), json_extract(payload, '$.session_id')"
            " FROM events WHERE seq = ?",
            (first,),
        )
        last_at = self._one("SELECT received_at FROM events WHERE seq = ?", (last,))[0]
        ended = self._all(
            "SELECT sealed_by, halted FROM sessions WHERE workflow_id = ? AND run_id = ?",
            (workflow_id, run_id),
        )
        sealed_by, halted = ended[0] if ended else (None, None)
        agent, session = str(began[1] or began[2] or ""), str(began[3] or "")
        if halted is None and sealed_by is None:
            # Its next gate is where it hears of it.
            halts = self._all(*halt_query((("run", run_id), ("session", session), ("agent", agent))))
            halted = halt_from(halts[0]).why if halts else None
        return RunRow(
            workflow_id=workflow_id,
            run_id=run_id,
            events=events,
            last=last,
            started_at=began[0],
            last_at=last_at,
            agent=agent,
            session=session,
            sealed_by=sealed_by,
            halted=halted,
        )

    def _one(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        return self._all(query, values)[0]

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()


_PENDING = "state = 'pending' AND (expires_at IS NULL OR expires_at > ?)"


def _runs(open_only: bool) -> str:
    # Answered from the index alone, which holds the numbers of the events as well.
    ended = (
        " AND NOT EXISTS (SELECT 1 FROM sessions s"
        " WHERE s.workflow_id = e.workflow_id AND s.run_id = e.run_id)"
    )
    return (
        "SELECT workflow_id, run_id, count(*) AS events, min(seq) AS first, max(seq) AS last"
        f" FROM events e WHERE workflow_id <> ''{ended if open_only else ''} GROUP BY workflow_id, run_id"
    )
