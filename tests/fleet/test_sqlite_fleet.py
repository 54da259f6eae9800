"""A store in a file, as the workers of one machine use it."""

from __future__ import annotations

import pickle
import resource
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from openbox_agentrt.fleet import FleetConfigError, FleetUnavailableError, SqliteFleet, open_fleet
from openbox_agentrt.fleet.sqlite import SqliteLine
from openbox_agentrt.fleet.steps import Beat, Finish, Hold, Keep, NoAnswerError, Reserve, StepAnswer
from openbox_agentrt.fleet.wire import wire
from tests.fleet.plans import at_most, when_it_answers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.db"


def test_a_file_that_is_locked_is_an_outage(path: Path) -> None:
    """The call is refused in time, with a wait; afterwards it goes on by itself."""
    fleet = SqliteFleet(path)
    when_it_answers(fleet, at_most(9))
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("begin immediate")
    try:
        with pytest.raises(FleetUnavailableError) as caught:
            fleet.reserve(at_most(2))
    finally:
        blocker.execute("rollback")
        blocker.close()

    assert caught.value.retry_after > 0
    assert pickle.loads(pickle.dumps(caught.value)).retry_after == caught.value.retry_after
    # Of two, one was taken before; the doubtful one was given back.
    assert when_it_answers(fleet, at_most(2)).lease is not None
    assert fleet.counts.outages >= 1
    fleet.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: open_fleet("postgres://x"), "names no store", id="another scheme"),
        pytest.param(lambda: open_fleet("sqlite://fleet.db"), "names no file", id="two slashes"),
        pytest.param(lambda: open_fleet("sqlite:///x", lease_seconds=0), "lease_seconds is 0", id="no lease"),
    ],
)
def test_what_makes_no_sense_is_said(make: object, words: str) -> None:
    """One line, before anything is made."""
    assert callable(make)
    with pytest.raises(FleetConfigError, match=words):
        make()


def test_a_disk_that_is_full_is_said(path: Path) -> None:
    """As what it is, and what comes next is tried anew."""
    line = SqliteLine(path)
    line.run([Beat(worker="w", lease_us=10**12, join=True)])
    (held,) = line.run([Hold(session="s", worker="w", idle_us=10**12)])
    much = replace(written("s", held), changed={"a": "x" * 1_000_000}, idle_us=10**12)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(NoAnswerError, match=r"disk I/O|disk is full"):
            line.run([much])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert [answer.said for answer in line.run([much])] == ["ok"]
    line.close()


def test_what_is_over_is_deleted_in_portions(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a day all of its counters are over at once, and nobody waits for all of them to go."""
    monkeypatch.setattr("openbox_agentrt.fleet.sqlite.SWEPT_AT_ONCE", 10)
    now = 10**15
    line = SqliteLine(path, clock=lambda: now)
    names = [f"s{number}" for number in range(25)]
    line.run([Beat(worker="w", lease_us=10**15, join=True)])
    stands = line.run([Hold(session=name, worker="w", idle_us=1000) for name in names])
    line.run([written(name, answer) for name, answer in zip(names, stands, strict=True)])
    now += 10_000

    def left() -> tuple[int, int]:
        with line.transaction() as tables:
            sizes = [tables.read(f"select count(*) from {table}")[0][0] for table in ("session", "piece")]
        return sizes[0], sizes[1]

    assert left() == (25, 25)
    assert line.sweep(0)
    assert left() == (15, 15)
    assert not line.sweep(60)
    assert left() == (0, 0)
    line.close()


def written(name: str, held: StepAnswer) -> Keep:
    assert held.session is not None
    return Keep(
        session=name,
        worker="w",
        idle_us=1000,
        birth=held.session.birth,
        base=0,
        version=1,
        changed={"a": "1"},
        release=True,
    )


def test_a_file_that_is_no_store_is_said(tmp_path: Path) -> None:
    """Nobody waits for it to become one."""
    path = tmp_path / "notes.txt"
    path.write_text("no database at all, and longer than a header is" * 50, encoding="utf-8")
    fleet = SqliteFleet(path, timeout_seconds=20)

    with pytest.raises(FleetConfigError, match="is no SQLite file"):
        fleet.reserve(at_most(1))
    fleet.close()


def test_what_the_steps_of_a_trip_share_is_read_and_written_once(path: Path) -> None:
    """The end of one call and the next one, in one transaction: eleven statements, the numbers right."""
    line = SqliteLine(path)
    plan, guards = wire(at_most(9), 0)
    cell = plan.c[0].id

    def reserve(lease: str) -> Reserve:
        return Reserve(lease=lease, worker="w", plan=plan, guards=guards, started=True)

    line.run([Beat(worker="w", lease_us=10**9, join=True)])
    line.run([reserve("a")])
    said: list[str] = []
    with line.transaction() as tables:
        tables._db.set_trace_callback(said.append)
    said.clear()

    answers = line.run([Finish(worker="w", lease="a", how="commit", cells=(cell,)), reserve("b")])

    assert [answer.said for answer in answers] == ["ok", "ok"]
    assert answers[1].ops == answers[0].ops + 1
    assert len(said) == 11, said
    with line.transaction() as tables:
        assert tables.read("select live, done from cell") == [(2, 1)]
        assert tables.read("select ops from worker") == [(answers[1].ops,)]
    line.close()
