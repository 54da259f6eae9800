"""Decide who holds the memory of a session, and keep what changes in it: the two steps over tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..steps import Hold, Keep, Said, SessionStand
from .tables import SessionRow, Tables

Answered = tuple[Said] | tuple[Said, SessionStand] | tuple[Said, None, int]


@dataclass(frozen=True, slots=True)
class Holder:
    """
    Give the two steps what they need of the ledger.

    Attributes:
        tables: The rows.
        now: The store's time.
        fresh: A name for a session that begins.
    """

    tables: Tables
    now: int
    fresh: str

    def lives(self, worker: str) -> int | None:
        """Say when the lease of a worker is over; None if it is."""
        row = self.tables.worker(worker) if worker else None
        return None if row is None or row.until < self.now else row.until


def hold(step: Hold, holder: Holder) -> Answered:
    """Let a worker have a session, if nobody else that lives has it."""
    tables, now = holder.tables, holder.now
    row = tables.session(step.session, now)
    if row is not None and row.owner != step.worker:
        until = holder.lives(row.owner)
        if until is not None:
            return "busy", None, until
    if row is None and now <= step.busy_until:
        # Whoever has it will write it again.
        return "busy", None, step.busy_until
    lost_at = tables.lost_at() if row is None else 0
    if lost_at and now <= lost_at + step.lease_us:
        return "lost", None, lost_at + step.lease_us
    if row is None or row.ended:
        # A store that has lost a session gets it back from the worker that knows it; one that ended is over.
        birth = holder.fresh if row is not None else step.birth or holder.fresh
        row = SessionRow(birth, step.worker)
        tables.clear_pieces(step.session)
    row = replace(row, owner=step.worker)
    tables.set_session(step.session, row, now + step.idle_us)
    is_known = (row.birth, row.version) == (step.birth, step.version)
    pieces = None if is_known else tables.pieces(step.session)
    return "ok", SessionStand(birth=row.birth, version=row.version, writer=row.writer, pieces=pieces)


def keep(step: Keep, holder: Holder) -> Answered:
    """Write what has changed, for the worker that holds the session and nobody else."""
    tables, now = holder.tables, holder.now
    row = tables.session(step.session, now)
    if row is None:
        if not step.whole:
            return ("gone",)
        row = SessionRow(step.birth, step.worker)
    if row.birth != step.birth or row.ended:
        return ("again",) if row.ended and step.end and row.birth == step.birth else ("no",)
    if row.version >= step.version and row.writer == step.worker:
        return ("again",)
    if row.owner != step.worker and (holder.lives(row.owner) is not None or row.version != step.base):
        # Whoever had it is dead or has let go of it, and nobody has written since: then it is still ours.
        return ("no",)
    if row.version > step.base and row.writer != step.worker:
        # It was made before this worker took the session again, from somebody else.
        return ("no",)
    if row.version < step.base and not step.whole:
        return ("gone",)
    if step.whole or step.end:
        tables.clear_pieces(step.session)
    if not step.end:
        tables.change_pieces(step.session, step.changed, step.dropped)
    owner = "" if step.release or step.end else step.worker
    written = SessionRow(step.birth, owner, step.version, step.worker, step.end)
    tables.set_session(step.session, written, now + step.idle_us)
    return ("ok",)
