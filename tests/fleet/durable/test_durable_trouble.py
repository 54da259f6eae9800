"""Durable sessions whose store is full, and those that a fork has copied."""

from __future__ import annotations

import os
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from openbox_agentrt.acel import Session, at_most_n_times, must_precede
from openbox_agentrt.acel.engine.durable.keep import kept_of
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.fleet import Fleet, RedisFleet, SqliteFleet
from tests.fleet.redis_server import RedisServer, free_port

RULES = [at_most_n_times("pay", 2), must_precede("verify", "pay")]


def session_of(fleet: Fleet) -> Session:
    return Session(contracts=RULES, fleet=fleet, durable=True, session_id="c-1")


def refused(session: Session) -> str | None:
    """Make a call, and give the code of the refusal; None if it was let through."""
    call = session.reserve("pay", started=True)
    if call.refusal is None:
        call.commit("paid")
        return None
    (broken,) = call.refusal.broken
    return broken.reason or broken.contract


@contextmanager
def full_server(server: RedisServer) -> Iterator[None]:
    """Let a server take nothing more."""
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    server.ask("CONFIG", "SET", "maxmemory", "1")
    yield
    server.ask("CONFIG", "SET", "maxmemory", "0")


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def goes_on(session: Session) -> None:
    """Make a call as soon as the store lets it."""
    for _ in range(2000):
        if refused(session) is None:
            return
    pytest.fail("the store has room again, and the call is refused")


def test_a_full_server_keeps_a_session_from_going_on(server: RedisServer) -> None:
    """No call runs that could not be written; with room again, all of it is there, and for others too."""
    with (
        closing(RedisFleet(server.url, timeout_seconds=20)) as fleet,
        closing(RedisFleet(server.url, timeout_seconds=20)) as other,
    ):
        session = session_of(fleet)
        session.call("verify", result="yes")
        with full_server(server):
            assert refused(session) == "session_store_unavailable"
            assert refused(session_of(other)) in ("session_store_unavailable", "session_busy")
        goes_on(session)
        session.release()

        heir = session_of(other)
        assert refused(heir) is None
        assert refused(heir) == "at_most_n_times(pay, n=2)"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits there")
def test_a_full_disk_keeps_a_session_from_going_on(tmp_path: Path) -> None:
    """As a full server does. What had ended before is told when there is room."""
    path = tmp_path / "fleet.db"
    with (
        closing(SqliteFleet(path, timeout_seconds=20)) as fleet,
        closing(SqliteFleet(path, timeout_seconds=20)) as other,
    ):
        session = session_of(fleet)
        session.call("verify", result="yes")
        with full_disk():
            assert refused(session) == "session_store_unavailable"
        goes_on(session)
        session.release()

        heir = session_of(other)
        assert refused(heir) is None
        assert refused(heir) == "at_most_n_times(pay, n=2)"


def in_child(work: Callable[[], object], meanwhile: Callable[[], object] = lambda: None) -> bool:
    """Fork, do `meanwhile` here and then `work` there, and tell whether that gave something true."""
    goes_on, go_on = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a process with threads is forked is the point
        child = os.fork()
    if not child:
        try:
            os.read(goes_on, 1)
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    meanwhile()
    os.write(go_on, b"!")
    os.close(go_on)
    os.close(goes_on)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("open_one", ["sqlite", "redis"], indirect=True)
def test_a_forked_worker_has_neither_the_session_nor_the_connection_of_its_parent(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused as any other worker is, whatever its copy remembers; the parent goes on."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.0)
    session = session_of(fleet)
    session.call("verify", result="yes")
    waiting, parents = session.reserve("pay"), fleet.worker
    assert waiting.written is not None
    waiting.written.result(20)

    def go_on() -> bool:
        started = waiting.start()
        reason = None if waiting.refusal is None else waiting.refusal.broken[0].reason
        mine = [refused(session), reason, started, fleet.worker == parents]
        return mine == ["session_busy", "session_lost", False, False]

    assert in_child(go_on)

    assert fleet.worker == parents
    assert waiting.start()
    waiting.commit("paid")
    assert refused(session) is None
    assert refused(session) == "at_most_n_times(pay, n=2)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("open_one", ["sqlite"], indirect=True)
def test_a_fork_does_not_wait_for_what_its_parent_has_asked(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is the parent's: what it writes is under way there, and the copy is refused at once."""
    session = session_of(fleet)
    session.call("verify", result="yes")
    with closing(sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)) as writer:
        writer.execute("begin immediate")
        call = session.reserve("pay")
        assert call.written is not None
        assert not call.written.done()

        def start() -> bool:
            monkeypatch.setattr(fleet, "timeout_seconds", 3600)
            return not call.start() and call.refusal.broken[0].reason == "session_lost"  # type: ignore[union-attr]

        assert in_child(start, lambda: writer.execute("rollback"))

    assert call.start()
    call.commit("paid")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_takes_a_session_that_its_parent_has_let_go_of(
    fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its copy or by a record of its own; and lets go of it, however many used it in the parent."""
    session = session_of(fleet)
    kept = kept_of(engine_of(session)).session
    kept.enter()
    kept.enter()
    session.call("verify", result="yes")

    def let_go() -> None:
        kept.let_go()
        heir = session_of(other)
        heir.hold()
        heir.release()

    def use_both() -> bool:
        own = session_of(fleet)
        used = [refused(own)]
        own.release()
        kept.enter()
        used.append(refused(session))
        kept.leave()
        fleet.close()
        return used == [None, None]

    assert in_child(use_both, let_go)
    assert refused(session_of(other)) == "at_most_n_times(pay, n=2)"


def test_state_is_written_by_hand_while_an_outage_leaves_it_to_the_process() -> None:
    """There is nothing else that it could go on from."""
    nobody = f"redis://127.0.0.1:{free_port()}/0"
    with closing(RedisFleet(nobody, on_outage="local", timeout_seconds=20)) as fleet:
        session = session_of(fleet)
        session.call("look", result="seen")
        session.state.set("paid", 1)
        assert session.state.snapshot() == {"paid": 1}
