"""Servers that are away, slow, emptied or replaced: nobody passes unasked, and nothing counts twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from openbox_agentrt._breaker import Breaker
from openbox_agentrt.acel import Reservation, Session, at_most_total
from openbox_agentrt.fleet import (
    Fleet,
    FleetConfigError,
    FleetUnavailableError,
    Lease,
    RedisFleet,
    SqliteFleet,
)
from tests.fleet.plans import after, at_most, spend, succeed, when_it_answers
from tests.fleet.proxy import Proxy
from tests.fleet.redis_server import RedisServer


@pytest.fixture
def fleet(server: RedisServer) -> Iterator[Fleet]:
    # A busy machine gets its time: what is away or cut off is noticed at once all the same.
    with closing(RedisFleet(server.url, timeout_seconds=5)) as fleet:
        yield fleet


def spent(fleet: Fleet) -> int:
    """Ask how much was spent, with a call that only looks."""
    return when_it_answers(fleet, spend(10**9, 0)).broken[0].total


def granted(fleet: Fleet, *, started: bool = True) -> Lease:
    lease = when_it_answers(fleet, spend(1, 10**6), started=started).lease
    assert lease is not None
    return lease


def test_lost_answers_count_once(server: RedisServer) -> None:
    """The same lease is asked for again; a call that was refused for want of an answer is given back."""
    calls = 0
    with (
        Proxy(server.port) as proxy,
        closing(RedisFleet(f"redis://127.0.0.1:{proxy.port}", timeout_seconds=5)) as fleet,
    ):
        for number in range(40):
            if number % 2:
                proxy.drops += 1 + number % 3
            with suppress(FleetUnavailableError):
                lease = fleet.reserve(spend(1, 10**6), started=True).lease
                assert lease is not None
                fleet.finish(lease, "commit")
                calls += 1
        proxy.drops = 0
        dropped = proxy.dropped
        end = time.monotonic() + 20
        while spent(fleet) != calls and time.monotonic() < end:
            time.sleep(0.02)

        assert dropped > 15
        assert calls > 20
        assert spent(fleet) == calls


def test_an_outage_is_said_once_and_so_is_its_end(
    server: RedisServer, fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads the log learns when the store went away, why, and when it was back: one line each."""
    granted(fleet)
    server.kill()
    for _ in range(3):
        with pytest.raises(FleetUnavailableError):
            fleet.reserve(spend())
    server.start()
    granted(fleet)

    said = [line.getMessage() for line in caplog.records if "answer" in line.getMessage()]
    assert len(said) == 2, said
    assert said[0].startswith("the fleet's store does not answer (")
    assert said[1] == "the fleet's store answers again"


def test_a_store_that_cannot_be_used_is_said_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that is not there is for whoever is on call, not only for whoever called."""
    with closing(SqliteFleet(tmp_path / "none" / "fleet.db", timeout_seconds=5)) as fleet:
        for _ in range(2):
            with pytest.raises(FleetConfigError):
                fleet.reserve(spend())

    said = [
        line.getMessage()
        for line in caplog.records
        if "does not answer (there is no folder" in line.getMessage()
    ]
    assert len(said) == 1


def test_a_server_that_is_away_refuses_and_comes_back(server: RedisServer, fleet: Fleet) -> None:
    """The reason is said, with a wait; nothing has to be done when it is back. What was done is repeated."""
    for _ in range(5):
        fleet.finish(granted(fleet), "commit")
    assert spent(fleet) == 5

    server.kill()
    with pytest.raises(FleetUnavailableError) as caught:
        fleet.reserve(spend())
    assert caught.value.retry_after > 0
    server.start()

    assert spent(fleet) == 5
    assert fleet.counts.lost == 1


def test_what_ran_otherwise_counts_though_the_server_hangs(server: RedisServer, fleet: Fleet) -> None:
    """One customer was judged, and another was paid while nobody answered: that is known when it is over."""
    rule = at_most_total("pay", "amount", 500, key="customer", scope="fleet", per="day")
    session = Session(contracts=[rule], fleet=fleet)

    def pay(customer: str, amount: int) -> Reservation:
        return session.reserve("pay", {"customer": customer, "amount": amount})

    when_it_answers(fleet, at_most(9))
    reservation = pay("one", 500)
    assert reservation.start()
    server.stop()
    reservation.commit({}, args={"customer": "another", "amount": 500})
    assert not pay("a third", 1).allowed
    server.go_on()
    end = time.monotonic() + 20
    while not pay("a third", 1).allowed:
        assert time.monotonic() < end, "it answers, and nothing is let through"
        time.sleep(0.05)

    assert not pay("another", 1).allowed


def test_an_emptied_server_is_told_again(server: RedisServer, fleet: Fleet) -> None:
    """Open leases too: they can start, and end."""
    fleet.timeout_seconds = 20
    for number in range(30):
        lease = granted(fleet, started=False)
        if number == 20:
            server.ask("FLUSHALL")
        assert fleet.start(lease)
        fleet.finish(lease, "commit" if number % 2 else "fail")

    assert spent(fleet) == 30


def test_scripts_that_were_flushed_are_loaded_again(server: RedisServer, fleet: Fleet) -> None:
    """Nobody notices."""
    fleet.finish(granted(fleet), "commit")
    server.ask("SCRIPT", "FLUSH")

    fleet.finish(granted(fleet), "commit")

    assert spent(fleet) == 2
    assert fleet.counts.outages == 0


def test_a_replica_without_the_last_writes_is_told_them(server: RedisServer, tmp_path: Path) -> None:
    """The worker knows that more was acknowledged than the new server has seen."""
    folder = tmp_path / "replica"
    folder.mkdir()
    with (
        RedisServer(folder, "--replicaof", f"127.0.0.1 {server.port}") as replica,
        Proxy(server.port) as proxy,
        closing(RedisFleet(f"redis://127.0.0.1:{proxy.port}", timeout_seconds=5)) as fleet,
    ):
        for _ in range(10):
            fleet.finish(granted(fleet), "commit")
        assert spent(fleet) == 10
        end = time.monotonic() + 20
        while b"$2\r\n10" not in total(replica):
            assert time.monotonic() < end
            time.sleep(0.01)
        replica.ask("REPLICAOF", "NO", "ONE")
        for _ in range(7):
            fleet.finish(granted(fleet), "commit")
        assert spent(fleet) == 17

        proxy.target = replica.port
        server.kill()
        proxy.cut(listener=False)

        assert spent(fleet) == 17
        assert fleet.counts.lost == 1


def total(server: RedisServer) -> bytes:
    """Give what a server knows of the only sum there is."""
    cell = server.ask("KEYS", "*:c:*").split(b"\r\n")
    return server.ask("HGET", cell[2].decode(), "t") if len(cell) > 2 else b""


async def test_a_server_that_hangs_holds_up_no_loop(server: RedisServer, fleet: Fleet) -> None:
    """The loop turns while the question waits, and what the server did about it later is undone."""
    fleet.timeout_seconds = 20
    first = await fleet.areserve(at_most(1))
    assert first.lease is not None
    fleet.finish(first.lease, "undo", soon=False).result(20)
    fleet.timeout_seconds = 0.25
    server.stop()
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    with pytest.raises(FleetUnavailableError):
        await fleet.areserve(at_most(1))
    turning.cancel()
    server.go_on()

    # It would have been stuck in one turn for a quarter of a second.
    assert turns > 50
    fleet.timeout_seconds = 2
    for _ in range(200):
        with suppress(FleetUnavailableError):
            if (await fleet.areserve(at_most(1))).lease is not None:
                break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("what nobody took was not given back")


def test_an_outage_under_local_counts_here_and_is_told_later(server: RedisServer) -> None:
    """The lease says so, a limit holds within the process, and the store learns of it."""
    with closing(RedisFleet(server.url, on_outage="local")) as fleet:
        fleet.timeout_seconds, patience = 20, fleet.timeout_seconds
        first = fleet.reserve(spend(100, 500), started=True)
        assert first.lease is not None
        assert not first.lease.local
        fleet.finish(first.lease, "commit", soon=False).result(20)
        fleet.timeout_seconds = patience
        server.kill()

        answers = [fleet.reserve(spend(100, 500)).lease for _ in range(7)]
        leases = [lease for lease in answers if lease is not None]
        assert len(leases) == 5
        assert all(lease.local for lease in leases)
        assert fleet.start(leases[0])
        fleet.finish(leases[0], "commit")
        for lease in leases[1:4]:
            fleet.finish(lease, "undo")
        assert fleet.counts.local == 7
        server.start()

        end = time.monotonic() + 20
        while fleet.counts.repeated == 0 or spent(fleet) != 300:
            assert time.monotonic() < end, spent(fleet)
            time.sleep(0.05)
        # One before the outage, one that ran in it, and one that is still open.
        assert fleet.finish(leases[4], "undo", soon=False).result(20).said == "ok"
        assert spent(fleet) == 200


def test_a_success_during_an_outage_is_found_at_once(server: RedisServer) -> None:
    """Under `local` too, a worker finds what it did before."""
    server.kill()
    with closing(RedisFleet(server.url, on_outage="local")) as fleet:
        lease = fleet.reserve(succeed(), started=True).lease
        assert lease is not None
        fleet.finish(lease, "commit")

        assert fleet.reserve(after()).lease is not None


def test_a_full_server_is_an_outage(server: RedisServer, fleet: Fleet) -> None:
    """Nobody is let through on a count that could not be kept."""
    granted(fleet)
    fleet.timeout_seconds = 20
    server.ask("CONFIG", "SET", "maxmemory", "1")

    with pytest.raises(FleetUnavailableError, match="used memory"):
        fleet.reserve(spend())
    server.ask("CONFIG", "SET", "maxmemory", "0")

    assert granted(fleet).local is False


def test_a_wrong_password_is_no_outage(server: RedisServer) -> None:
    """It is said at once, and is not waited for. The secret is in no message."""
    server.ask("CONFIG", "SET", "requirepass", "right")
    with closing(RedisFleet(f"redis://:wr0ng@127.0.0.1:{server.port}/0", timeout_seconds=20)) as fleet:
        with pytest.raises(FleetConfigError, match="does not let this client in") as caught:
            fleet.reserve(spend())

        assert "wr0ng" not in str(caught.value)
        assert "wr0ng" not in fleet.url


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage, nobody asks by themselves whether it is over."""
    hour = partial(Breaker, failures=1, first_pause=3600, longest_pause=3600)
    monkeypatch.setattr("openbox_agentrt._breaker.SHORTEST_OUTAGE", 0.0)
    monkeypatch.setattr("openbox_agentrt.fleet.client.dispatcher.Breaker", hour)


@pytest.mark.usefixtures("patient")
def test_whoever_hears_from_the_store_again_ends_the_outage_for_calls(
    server: RedisServer, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halts are looked for all the time: calls do not wait until the next probe is due."""
    monkeypatch.setattr("openbox_agentrt.fleet.halts.LOOK_SECONDS", 0.05)
    granted(fleet)
    server.kill()
    with pytest.raises(FleetUnavailableError):
        fleet.reserve(spend())
    time.sleep(0.2)
    server.start()

    granted(fleet)


@pytest.mark.usefixtures("patient")
def test_a_worker_that_closes_asks_once_more(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it could not tell during an outage that is over by now is told."""
    monkeypatch.setattr("openbox_agentrt.fleet.halts.LOOK_SECONDS", 3600)
    with (
        Proxy(server.port) as proxy,
        closing(RedisFleet(server.url, timeout_seconds=5)) as other,
        closing(RedisFleet(f"redis://127.0.0.1:{proxy.port}", timeout_seconds=5)) as one,
    ):
        lease = granted(one)
        proxy.drops = 1000
        with pytest.raises(FleetUnavailableError):
            one.reserve(spend())
        proxy.drops = 0
        one.finish(lease, "undo")
        one.close()

        assert spent(other) == 0
