"""Memory, SQLite and Redis agree about who holds a session, and about what is kept of it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openbox_agentrt.fleet.periods import SECOND
from openbox_agentrt.fleet.sqlite import SqliteLine
from openbox_agentrt.fleet.steps import Beat, Hold, Keep, SessionStand, Step, StepAnswer, StoreLine
from tests.fleet.judge.test_same_answers import WORKERS, Clock, beat
from tests.fleet.lines import KINDS, open_line
from tests.fleet.redis_server import RedisServer

IDLE = 86_400 * SECOND


@dataclass
class Program:
    """
    Draw steps of workers that hold and write two sessions.

    Attributes:
        known: What each worker knows of each session: birth, version told, and version sent.
    """

    rnd: random.Random
    clock: Clock
    known: dict[tuple[str, str], tuple[str, int, int]] = field(default_factory=dict)
    births: int = 0

    def step(self) -> Step:
        """Let time pass, and draw the next step."""
        if self.rnd.random() < 0.3:
            self.clock.now += self.rnd.choice([1, 5, 20, 40]) * SECOND
        worker, session = self.rnd.choice(WORKERS), self.rnd.choice(["c-1", "c-2 ä"])
        if self.rnd.random() < 0.3:
            lost = self.rnd.random() < 0.1
            return Beat(worker=worker, lease_us=30 * SECOND, join=True, lost=lost)
        birth, told, sent = self.known.get((worker, session), ("", -1, 0))
        if not birth or self.rnd.random() < 0.4:
            self.births += 1
            # A store names what it makes anew; here it is told a name, so that all of them take the same.
            return Hold(
                session=session,
                worker=worker,
                idle_us=IDLE,
                lease_us=30 * SECOND,
                birth=birth or f"told {self.births}",
                version=told,
            )
        whole = self.rnd.random() < 0.1
        base = max(told, 0) + (self.rnd.random() < 0.05)
        step = Keep(
            session=session,
            worker=worker,
            idle_us=IDLE,
            birth=birth,
            base=base,
            version=sent + self.rnd.randrange(2),
            changed={self.rnd.choice("xyzä"): str(self.rnd.random())},
            dropped=(self.rnd.choice("xyz"),) if not whole and self.rnd.random() < 0.3 else (),
            whole=whole,
            release=self.rnd.random() < 0.2,
            end=self.rnd.random() < 0.05,
        )
        self.known[worker, session] = birth, told, step.version
        return step

    def told(self, step: Step, answer: StepAnswer) -> None:
        """Remember what a worker was told."""
        if isinstance(step, Hold) and answer.session is not None:
            stand = answer.session
            sent = self.known.get((step.worker, step.session), ("", -1, 0))[2]
            self.known[step.worker, step.session] = stand.birth, stand.version, max(sent, stand.version)
        if isinstance(step, Keep) and answer.said in ("ok", "again") and self.rnd.random() < 0.8:
            self.known[step.worker, step.session] = step.birth, step.version, step.version
        if isinstance(step, Keep) and answer.said == "no":
            del self.known[step.worker, step.session]


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_all_stores_answer_the_same(shared_server: RedisServer, seed: int) -> None:
    """Who has it, which version there is, and every piece of it: all of it is equal, step by step."""
    clock, said = Clock(), Counter[str]()
    program = Program(random.Random(seed), clock)
    with TemporaryDirectory() as folder:
        lines = [open_line(kind, Path(folder), shared_server.url, clock) for kind in KINDS]
        names = [_Names() for _ in lines]
        try:
            for worker in WORKERS:
                for line in lines:
                    line.run([beat(worker)])
            for number in range(150):
                step = program.step()
                answers = [called.run(line, step) for called, line in zip(names, lines, strict=True)]
                told = [replace(answer, generation="", dead=()) for answer in answers]
                assert told[1:] == told[:1] * 2, (seed, number, step)
                program.told(step, told[0])
                said[told[0].said] += 1
        finally:
            for line in lines:
                line.close()

    assert said["ok"] > 20, "hardly anything was granted: this would pass without checking much"


@dataclass
class _Names:
    """Translate the names that a store gives to sessions that begin anew, so that answers compare."""

    own: dict[str, str] = field(default_factory=dict)

    def run(self, line: StoreLine, step: Step) -> StepAnswer:
        if isinstance(step, Hold | Keep):
            step = replace(step, birth=self.own.get(step.birth, step.birth))
        answer = line.run([step])[0]
        stand = answer.session
        if stand is None or stand.birth.startswith("told"):
            return answer
        called = {theirs: ours for ours, theirs in self.own.items()}
        name = called.get(stand.birth, f"anew {len(self.own)}")
        self.own[name] = stand.birth
        return replace(answer, session=replace(stand, birth=name))


def test_the_memory_of_a_session_belongs_to_one_worker_that_lives(tmp_path: Path) -> None:
    """A second one finds it in use; once the first is dead it is given all that the first wrote, and the
    first writes nothing more."""
    clock = Clock()
    line = SqliteLine(tmp_path / "fleet.db", clock=clock)
    line.run([beat("w1"), beat("w2")])
    first = line.run([Hold(session="c", worker="w1", idle_us=IDLE)])[0].session
    assert first is not None
    written = Keep(
        session="c", worker="w1", idle_us=IDLE, birth=first.birth, base=0, version=1, changed={"a": "1"}
    )
    line.run([written])

    assert line.run([Hold(session="c", worker="w2", idle_us=IDLE)])[0].said == "busy"
    clock.now += 31 * SECOND
    second = line.run([beat("w2"), Hold(session="c", worker="w2", idle_us=IDLE)])[1].session
    assert second == SessionStand(birth=first.birth, version=1, writer="w1", pieces={"a": "1"})
    assert line.run([replace(written, version=2)])[0].said == "dead"
    assert line.run([beat("w3"), replace(written, worker="w3", base=1, version=2)])[1].said == "no"
    line.close()
