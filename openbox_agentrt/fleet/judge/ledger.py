"""The steps of the protocol over tables, each within a transaction that its caller opens and ends."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from ..periods import SECOND
from ..steps import (
    Adopt,
    Beat,
    Finish,
    Hold,
    Keep,
    LeaseState,
    Mend,
    Park,
    Reserve,
    Said,
    SessionStand,
    Start,
    Step,
    StepAnswer,
    parked,
)
from ..wire import WirePlan
from .cell import CellState
from .guards import broken, holds
from .moves import reserve, settle
from .sessions import Holder, hold, keep
from .tables import LeaseRow, Tables, WorkerRow

TOMBSTONE: Final = 60 * SECOND
"""So long a finished lease is remembered: what comes late finds its id used up."""

DAY: Final = 86_400 * SECOND

_TO: Final[dict[str, LeaseState]] = {"commit": "c", "fail": "f", "undo": "g", "lose": "u"}


def unknown_for(plan: WirePlan) -> int:
    """Say how long a call is remembered of which nobody knows how it ended."""
    return max([DAY, *(cell.w or 0 for cell in plan.c)])


class Ledger:
    """
    Take one step, on tables that are locked.

    Args:
        tables: The rows.
        now: The store's time in microseconds.
    """

    def __init__(self, tables: Tables, now: int) -> None:
        self.tables = tables
        self.now = now
        self._generation = ""
        self._ops = 0
        self._worker: WorkerRow | None = None

    def take(self, step: Step) -> StepAnswer:
        """Take a step and answer it."""
        self._look(step)
        how = _TAKEN.get(type(step))
        if how is None:
            raise TypeError(f"no step of the protocol: {step!r}")
        return how(self, step)

    def _beat(self, step: Beat) -> StepAnswer:
        if step.leave:
            if self.tables.has_open(step.worker):
                return self._say("open")
            self.tables.drop_worker(step.worker)
            return self._say("ok")
        if not step.join and not self._alive():
            return self._say("dead")
        if step.lost and not self.tables.lost_at():
            self.tables.set_lost_at(self.now)
        self.tables.set_worker(step.worker, WorkerRow(self.now + step.lease_us, max(self._ops, step.acked)))
        return self._say("ok", dead=self.tables.overdue(self.now))

    def _reserve(self, step: Reserve) -> StepAnswer:
        had = self.tables.lease(step.lease)
        if had is not None:
            return self._say("gone" if had.state == "g" else "ok", state=had.state)
        if not self._alive():
            return self._say("dead")
        if step.generation and step.generation != self._generation and not step.force:
            return self._say("lost")
        if step.by is not None and self.now > step.by and not step.force:
            return self._say("stale")
        cells = [self.tables.cell(spec, self.now) for spec in step.plan.c]
        if any(cell.bad for cell in cells):
            self._save(cells)
            return self._say("edges")
        failed = [(i, guard) for i, guard in enumerate(step.guards) if not holds(guard, cells[guard.c])]
        reports = tuple(broken(i, guard, cells[guard.c]) for i, guard in failed)
        stops = any(guard.e for _, guard in failed) and not step.force
        if stops or step.dry:
            # What was over was swept out of them when they were opened.
            self._save(cells)
            dead = self.tables.overdue(self.now) if stops else ()
            return self._say("no" if stops else "ok", broken=reports, dead=dead)
        tickets = tuple(reserve(move, cells[move.c]) for move in step.plan.m)
        self._save(cells)
        state: LeaseState = "s" if step.started else "r"
        self.tables.add_lease(step.lease, LeaseRow(state, step.worker, step.plan, tickets), None)
        self._tick(step.worker)
        return self._say("ok", broken=reports, state=state)

    def _start(self, step: Start) -> StepAnswer:
        had = self.tables.lease(step.lease)
        if had is not None and had.state == "s" and had.worker == step.worker:
            return self._say("ok", state="s")
        if had is None or had.state != "r" or had.worker != step.worker or not self._alive():
            return self._say("no", state=had.state if had else "")
        self.tables.set_state(step.lease, "s", None)
        self._tick(step.worker)
        return self._say("ok", state="s")

    def _finish(self, step: Finish) -> StepAnswer:
        had = self.tables.lease(step.lease)
        if had is None:
            if step.how == "undo":
                self.tables.add_lease(step.lease, LeaseRow("g", step.worker), self.now + TOMBSTONE)
            return self._say("gone")
        if step.how == "settle":
            if self._alive() and not step.person:
                return self._say("alive")
            if had.state not in ("r", "s"):
                return self._say("again", state=had.state)
        to = _TO.get(step.how) or ("g" if had.state == "r" else "u")
        if had.state == to:
            return self._say("again", state=to)
        if had.plan is None or had.state in ("c", "f") or (had.state == "g" and step.how == "settle"):
            return self._say("no", state=had.state)
        return self._settle(step, had, had.plan, to)

    def _park(self, step: Park) -> StepAnswer:
        had, guardian = self.tables.lease(step.lease), parked(step.lease)
        if had is not None and had.state == "r" and had.worker == guardian:
            return self._say("ok", state="r")
        if had is None or had.state != "r" or had.worker != step.worker or not self._alive():
            return self._say("no", state=had.state if had else "")
        self.tables.set_worker(guardian, WorkerRow(self.now + step.for_us))
        self.tables.set_owner(step.lease, guardian)
        self.tables.set_note(step.lease, step.note)
        self._tick(step.worker)
        return self._say("ok", state="r")

    def _adopt(self, step: Adopt) -> StepAnswer:
        had, guardian = self.tables.lease(step.lease), parked(step.lease)
        if had is None or had.state != "r" or not self._alive():
            return self._say("no", state=had.state if had else "")
        if step.by is not None and self.now > step.by:
            return self._say("stale", state=had.state)
        if had.worker != step.worker:
            keeper = self.tables.worker(guardian)
            if had.worker != guardian or keeper is None or keeper.until < self.now:
                return self._say("no", state=had.state)
            self.tables.set_owner(step.lease, step.worker)
            self.tables.drop_worker(guardian)
            self._tick(step.worker)
        return self._say("ok", state="r", plan=had.plan, note=had.note)

    def _mend(self, step: Mend) -> StepAnswer:
        return self._say("ok" if self.tables.mend(step.cell, self.now) else "no")

    def _hold(self, step: Hold) -> StepAnswer:
        if not self._alive():
            return self._say("dead")
        if step.by is not None and self.now > step.by:
            return self._say("stale")
        return self._said(step.worker, *hold(step, self._holder()))

    def _keep(self, step: Keep) -> StepAnswer:
        if not self._alive():
            return self._say("dead")
        return self._said(step.worker, *keep(step, self._holder()))

    def _holder(self) -> Holder:
        return Holder(self.tables, self.now, uuid.uuid4().hex[:12])

    def _said(
        self, worker: str, said: Said, session: SessionStand | None = None, until: int = 0
    ) -> StepAnswer:
        if said == "ok":
            self._tick(worker)
        return self._say(said, session=session, until=until)

    def _look(self, step: Step) -> None:
        self._generation = self.tables.generation()
        self._worker = self.tables.worker(step.worker)
        self._ops = 0 if self._worker is None else self._worker.ops
        if not self._generation or (self._worker is not None and self._ops < step.acked):
            self._generation = uuid.uuid4().hex[:12]
            self.tables.set_generation(self._generation)
            if step.acked:
                # Somebody knows steps that are not here: it is no new store.
                self.tables.set_lost_at(self.now)
            if self._worker is not None:
                self._ops = self._worker.ops = max(self._ops, step.acked)
                self.tables.set_worker(step.worker, self._worker)

    def _alive(self) -> bool:
        return self._worker is not None and self._worker.until >= self.now

    def _tick(self, worker: str) -> None:
        if self._worker is not None:
            self._ops = self._worker.ops = self._ops + 1
            self.tables.set_worker(worker, self._worker)

    def _settle(self, step: Finish, had: LeaseRow, plan: WirePlan, to: LeaseState) -> StepAnswer:
        cells = [self.tables.cell(spec, self.now) for spec in plan.c]
        tickets, late = had.tickets, had.state == "g"
        if late:
            tickets = tuple(reserve(move, cells[move.c]) for move in plan.m)
        seen = step.measured or {}
        over = tuple(
            position
            for position, (move, ticket) in enumerate(zip(plan.m, tickets, strict=True))
            if settle(move, cells[move.c], ticket, to, seen.get(position), step.lease)
        )
        self._save(cells)
        stays = unknown_for(plan) if to == "u" else TOMBSTONE
        self.tables.set_state(step.lease, to, self.now + stays)
        if step.how != "settle":
            self._tick(step.worker)
        return self._say("late" if late else "ok", over=over, state=to)

    def _save(self, cells: list[CellState]) -> None:
        for cell in cells:
            if cell.moved:
                self.tables.save(cell)

    def _say(self, said: Any, **more: Any) -> StepAnswer:
        return StepAnswer(said=said, now=self.now, generation=self._generation, ops=self._ops, **more)


_TAKEN: Final[dict[type, Callable[[Ledger, Any], StepAnswer]]] = {
    Beat: Ledger._beat,
    Reserve: Ledger._reserve,
    Start: Ledger._start,
    Finish: Ledger._finish,
    Park: Ledger._park,
    Adopt: Ledger._adopt,
    Mend: Ledger._mend,
    Hold: Ledger._hold,
    Keep: Ledger._keep,
}
