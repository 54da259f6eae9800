"""Memory, SQLite and Redis give the same answers to the same steps, call by call."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openbox_agentrt.fleet import FleetCell, FleetGuard, FleetMove, FleetPlan
from openbox_agentrt.fleet.amounts import LARGEST
from openbox_agentrt.fleet.periods import SECOND
from openbox_agentrt.fleet.steps import (
    Adopt,
    Beat,
    Finish,
    Mend,
    Park,
    Reserve,
    Start,
    Step,
    StepAnswer,
    parked,
)
from openbox_agentrt.fleet.wire import cell_id, wire
from tests.fleet.lines import KINDS, open_line
from tests.fleet.redis_server import RedisServer

BEGIN = 1_796_024_859_715_449
WORKERS = ("w1", "w2", "w3")
WINDOW = 60 * SECOND

CELLS = (
    FleetCell(kind="tally", name="tally"),
    FleetCell(kind="tally", name="daily", per="day", tz="Europe/Berlin"),
    FleetCell(kind="stamps", name="stamps", within=WINDOW),
    FleetCell(kind="marks", name="marks", within=WINDOW),
    FleetCell(kind="sum", name="sum", scale=2),
    FleetCell(kind="sum", name="sum window", within=WINDOW, scale=2),
    FleetCell(kind="sum", name="sum hour", per="hour", scale=2),
    FleetCell(kind="distinct", name="distinct"),
    FleetCell(kind="distinct", name="distinct window", within=WINDOW),
    FleetCell(kind="tokens", name="tokens"),
    FleetCell(kind="tokens", name="tokens window", within=WINDOW),
    FleetCell(kind="tokens", name="tokens once"),
)
PAUSES = (
    1,
    1000,
    7 * SECOND,
    20 * SECOND,
    20 * SECOND,
    WINDOW,
    WINDOW + 1,
    40 * 60 * SECOND,
    26 * 3600 * SECOND,
)


def beat(worker: str) -> Step:
    """Make a worker, or renew its lease."""
    return Beat(worker=worker, lease_us=30 * SECOND, join=True)


class Clock:
    """The time of all stores."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> int:
        return self.now


@dataclass
class Program:
    """
    Draw steps that mostly make sense.

    Attributes:
        leases: What was reserved and may still be settled: plan and worker.
    """

    rnd: random.Random
    clock: Clock
    cells: tuple[FleetCell, ...] = ()
    leases: dict[str, tuple[FleetPlan, str]] = field(default_factory=dict)
    number: int = 0
    due: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Few cells at a time, so that calls meet.
        self.cells = tuple(self.rnd.sample(CELLS, 3))

    def step(self) -> Step:
        """Let time pass, and draw the next step."""
        if self.due:
            return self.due.pop()
        if self.rnd.random() < 0.5:
            self.clock.now += self.rnd.choice(PAUSES[:5] if self.rnd.random() < 0.9 else PAUSES)
            # A worker that lives gives a sign of it.
            self.due = [beat(worker) for worker in WORKERS if self.rnd.random() < 0.95]
        elif self.rnd.random() < 0.04:
            self.clock.now -= 30 * SECOND
        draw = self.rnd.random()
        if draw < 0.45 or not self.leases:
            return self.reserve()
        lease = self.rnd.choice(list(self.leases))
        plan, worker = self.leases[lease]
        if draw < 0.52:
            return Start(lease=lease, worker=worker)
        if draw < 0.80:
            return self.finish(lease, plan, worker)
        if draw < 0.84:
            return Park(lease=lease, worker=worker, for_us=self.rnd.choice([0, 40 * SECOND]))
        if draw < 0.88:
            return Adopt(lease=lease, worker=self.rnd.choice(WORKERS))
        if draw < 0.90:
            return Mend(cell=cell_id(self.rnd.choice(plan.cells)))
        some = self.rnd.choice(WORKERS)
        return Beat(worker=some, lease_us=30 * SECOND, join=draw < 0.98, leave=draw > 0.99)

    def told(self, step: Step, answer: StepAnswer) -> None:
        """Remember whose a lease is."""
        if answer.said == "ok" and isinstance(step, Adopt | Park):
            owner = parked(step.lease) if isinstance(step, Park) else step.worker
            self.leases[step.lease] = self.leases[step.lease][0], owner

    def reserve(self) -> Step:
        self.number += 1
        again = self.leases and self.rnd.random() < 0.1
        lease = self.rnd.choice(list(self.leases)) if again else f"l{self.number}"
        plan, worker = self.leases.setdefault(lease, (self.plan(), self.rnd.choice(WORKERS)))
        sent, guards = wire(plan, self.clock.now)
        return Reserve(
            lease=lease,
            worker=worker,
            plan=sent,
            guards=guards,
            by=self.rnd.choice([None, None, None, self.clock.now - 1, self.clock.now]),
            started=self.rnd.random() < 0.2,
            force=self.rnd.random() < 0.1,
            dry=self.rnd.random() < 0.1,
        )

    def finish(self, lease: str, plan: FleetPlan, worker: str) -> Step:
        how = self.rnd.choice(["commit", "commit", "commit", "fail", "undo", "undo", "lose", "settle"])
        if self.rnd.random() < 0.6:
            del self.leases[lease]
        measured: dict[int, Any] = {}
        for position, move in enumerate(plan.moves):
            kind = plan.cells[move.cell].kind
            if kind in ("sum", "distinct") and self.rnd.random() < 0.5:
                units, some = self.rnd.choice([0, 50, 400, -20]), tuple(self.rnd.sample("xyzä", 2))
                measured[position] = units if kind == "sum" else some
        return Finish(
            lease=lease,
            worker=worker,
            how=how,  # type: ignore[arg-type]  # one of those that are drawn from
            cells=tuple(map(cell_id, plan.cells)),
            measured=measured or None,
            person=self.rnd.random() < 0.3,
        )

    def plan(self) -> FleetPlan:
        key = self.rnd.choice(["", "", "", "", "c:7ä"])
        cells = tuple(
            replace(cell, key=key) for cell in self.rnd.sample(self.cells, self.rnd.randrange(1, 3))
        )
        guards: list[FleetGuard] = []
        moves: list[FleetMove] = []
        for position, cell in enumerate(cells):
            self.ask(position, cell, guards, moves)
        return FleetPlan(cells=cells, guards=tuple(guards), moves=tuple(moves))

    def ask(self, at: int, cell: FleetCell, guards: list[FleetGuard], moves: list[FleetMove]) -> None:
        rnd = self.rnd
        common: Any = {"cell": at, "enforced": rnd.random() < 0.8}
        later = rnd.random() < 0.2
        if cell.kind == "sum":
            amount = None if later else rnd.choice([0, 1, 30, 100, 100, -5, LARGEST, LARGEST // 2 + 1])
            limit = rnd.choice([100, 500, 500, LARGEST])
            guards.append(FleetGuard(kind="spend", n=limit, amount=amount, **common))
            refund = rnd.random() < 0.3
            moves.append(FleetMove(cell=at, amount=amount, deferred=later, limit=limit, refund=refund))
        elif cell.kind == "distinct":
            values = None if later else tuple(rnd.sample("xyzä", rnd.randrange(1, 3)))
            guards.append(FleetGuard(kind="distinct", n=rnd.randrange(1, 4), values=values, **common))
            moves.append(FleetMove(cell=at, values=values, deferred=later, limit=2))
        elif cell.kind == "tokens":
            once = cell.name == "tokens once"
            if rnd.random() < 0.5:
                moves.append(FleetMove(kind="give", cell=at, once=once))
            else:
                guards.append(FleetGuard(kind="token", **common))
                moves.append(FleetMove(kind="take", cell=at, once=once))
        else:
            kinds = {"marks": ["need"], "stamps": ["ban", "cap"], "tally": ["ban", "cap", "need"]}[cell.kind]
            if rnd.random() < 0.6:
                kind: Any = rnd.choice(kinds)
                guards.append(FleetGuard(kind=kind, n=rnd.randrange(1, 5), **common))
            moves.append(FleetMove(cell=at, refund=rnd.random() < 0.3))


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_all_stores_answer_the_same(shared_server: RedisServer, seed: int) -> None:
    """Said, state, what is broken and when it is free, who is dead, what was overshot: all of it is equal."""
    said = play(shared_server.url, seed, steps=300)

    assert said["ok"] > 60, "hardly anything was granted: this would pass without checking much"


def play(url: str, seed: int, *, steps: int) -> Counter[str]:
    """Take drawn steps in every store. Counts what was said."""
    clock, said = Clock(), Counter[str]()
    program = Program(random.Random(seed), clock)
    with TemporaryDirectory() as folder:
        lines = [open_line(kind, Path(folder), url, clock) for kind in KINDS]
        try:
            for worker in WORKERS:
                for line in lines:
                    line.run([beat(worker)])
            for number in range(steps):
                step = program.step()
                answers = [comparable(line.run([step])[0]) for line in lines]
                assert answers[1:] == answers[:1] * 2, (seed, number, step)
                program.told(step, answers[0])
                said[answers[0].said] += 1
        finally:
            for line in lines:
                line.close()
    return said


def comparable(answer: StepAnswer) -> StepAnswer:
    """Leave out what each store names for itself."""
    return replace(answer, generation="", dead=tuple(sorted(answer.dead)))
