"""Threads, forks and answers that make no sense: one worker, and nothing that it did is lost."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import uuid
import warnings
from contextlib import closing, suppress
from pathlib import Path

import pytest

from openbox_agentrt.acel import Session, at_most_n_times, rate_limit
from openbox_agentrt.fleet import Fleet, RedisFleet, SqliteFleet
from tests.fleet.conftest import OpenFleet
from tests.fleet.plans import at_most
from tests.fleet.proxy import Proxy
from tests.fleet.redis_server import RedisServer

ONE = at_most_n_times("pay", 1, scope="fleet", forever=True)


@pytest.mark.parametrize(
    "line",
    [
        b"$abc\r\n",
        b":5\r\n:5\r\n",
        (b"*9\r\n" + b"$1\r\n\xff\r\n" * 9) * 2,
        b"-NOAUTH Authentication required.\r\n",
    ],
)
def test_answers_that_make_no_sense_refuse_and_lose_nothing(shared_server: RedisServer, line: bytes) -> None:
    """The call is refused like in any outage, and what was to be given back is, as soon as that is over."""
    name = uuid.uuid4().hex
    with (
        Proxy(shared_server.port) as proxy,
        closing(RedisFleet(f"redis://127.0.0.1:{proxy.port}?namespace={name}", timeout_seconds=1)) as fleet,
    ):
        session = Session(contracts=[ONE], fleet=fleet)
        reservation = session.reserve("pay")
        assert reservation.allowed

        proxy.answer = line
        reservation.abort()
        assert not session.reserve("pay").allowed

        proxy.answer = None
        end = time.monotonic() + 20
        while not session.reserve("pay").allowed:
            assert time.monotonic() < end, "what never ran is counted"
            time.sleep(0.05)


def test_threads_whose_first_calls_come_at_once_are_one_worker(tmp_path: Path) -> None:
    """A second one would hold leases that nobody ever lets go of."""
    before, interval = threading.active_count(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(5):
            with closing(SqliteFleet(tmp_path / f"{turn}.db", timeout_seconds=20)) as fleet:
                workers = first_calls(fleet, threads=8)
                assert len(workers) == 1
    finally:
        sys.setswitchinterval(interval)

    assert threading.active_count() == before


def first_calls(fleet: Fleet, *, threads: int) -> set[str]:
    barrier, workers = threading.Barrier(threads), set()

    def call() -> None:
        barrier.wait()
        lease = fleet.reserve(at_most(100)).lease
        assert lease is not None
        workers.add(lease.worker)

    every = [threading.Thread(target=call) for _ in range(threads)]
    for one in every:
        one.start()
    for one in every:
        one.join()
    return workers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_that_drops_its_copy_of_a_call_does_not_lose_it(fleet: Fleet, open_one: OpenFleet) -> None:
    """The call is its parent's, who goes on with it."""
    session = Session(contracts=[ONE], fleet=fleet)
    reservation = session.reserve("pay")
    assert reservation.allowed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        del reservation
        gc.collect()
        with suppress(Exception):
            fleet.close()
        os._exit(0)
    os.waitpid(child, 0)

    assert reservation.start()
    reservation.commit()
    assert not Session(contracts=[ONE], fleet=open_one()).reserve("pay").allowed


@pytest.mark.parametrize("seconds", [1e-7, 1e12])
def test_a_window_that_no_store_can_count_is_said_at_once(seconds: float) -> None:
    """Not when the first call comes."""
    with pytest.raises(ValueError, match="a window of the fleet is from"):
        rate_limit("pay", 3, seconds, scope="fleet")
    rate_limit("pay", 3, seconds, scope="session")


def test_a_file_that_was_removed_is_told_what_was_done_lately(tmp_path: Path) -> None:
    """Two workers count on in the file that takes its place, from what they remember."""
    path, paid = tmp_path / "fleet.db", 0
    with (
        closing(SqliteFleet(path, timeout_seconds=20)) as one,
        closing(SqliteFleet(path, timeout_seconds=20)) as another,
    ):
        for number in range(20):
            worker = (one, another)[number % 2]
            lease = worker.reserve(at_most(10), started=True).lease
            if lease is not None:
                paid += 1
                assert worker.finish(lease, "commit", soon=False).result(20).said == "ok"
            if number == 5:
                for file in tmp_path.iterdir():
                    file.unlink()
                for each in (one, another):
                    each.reserve(at_most(0, name="look"))

    assert paid == 10
