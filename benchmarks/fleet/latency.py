"""How long one step takes, taken in turn with a PING of the same client and with a plain counter."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from openbox_agentrt.fleet import Fleet, Lease, RedisFleet, SqliteFleet

from ..tables import Row, Table
from .plans import payment

MINUTE = 60_000_000


def measure(redis_url: str, folder: Path, *, quick: bool) -> Table:
    """Time the steps of one process, one at a time."""
    rounds = 20 if quick else 1500
    rows: list[Row] = []
    with closing(RedisFleet(redis_url, timeout_seconds=5)) as fleet:
        rows += _rows("redis", fleet, rounds, _plain(redis_url))
    with closing(SqliteFleet(folder / "latency.db", timeout_seconds=5)) as fleet:
        rows += _rows("sqlite", fleet, rounds, {})
    return Table(
        name="fleet-latency",
        title="One process, one call at a time",
        columns=("step", "store", "median us", "p99 us", "to a PING"),
        rows=rows,
        notes="Three contracts about the call. Contenders take turns, call by call. PING is that of redis-py;"
        " limits is its RedisStorage, one counter, without leases. The commit goes with the next call.",
    )


def _plain(url: str) -> dict[str, Callable[[], object]]:
    import limits
    import redis

    client = redis.Redis.from_url(url, protocol=2)
    storage = limits.storage.storage_from_string(url)
    fixed = limits.strategies.FixedWindowRateLimiter(storage)
    moving = limits.strategies.MovingWindowRateLimiter(storage)
    item = limits.parse("1000000000 per day")
    return {
        "PING of the client": client.ping,
        "limits, fixed window": lambda: fixed.hit(item, "c"),
        "limits, moving window, 100 an hour": lambda: moving.hit(limits.parse("100 per hour"), "c"),
    }


def _rows(store: str, fleet: Fleet, rounds: int, plain: dict[str, Callable[[], object]]) -> list[Row]:
    plan, window = payment("c"), payment("w", within=MINUTE)
    held: list[Lease] = []

    def reserve() -> None:
        held.append(_granted(fleet, plan))

    def commit() -> None:
        fleet.finish(held[-1], "commit", soon=False).result(5)

    def whole() -> None:
        lease = _granted(fleet, plan)
        fleet.start(lease)
        fleet.finish(lease, "commit")

    def one_trip() -> None:
        fleet.finish(_granted(fleet, plan, started=True), "commit")

    contenders: dict[str, Callable[[], object]] = {
        **plain,
        "reserve": reserve,
        "start": lambda: fleet.start(held[-1]),
        "commit, waited for": commit,
        "reserve, over windows": lambda: held.append(_granted(fleet, window)),
        "undo, waited for": lambda: fleet.finish(held.pop(), "undo", soon=False).result(5),
        "reserve, start, commit": whole,
        "one trip, commit": one_trip,
    }
    taken = _in_turn(contenders, rounds)
    taken["reserve, start, commit, from an event loop"] = asyncio.run(_from_a_loop(fleet, rounds))
    ping = statistics.median(taken["PING of the client"]) if plain else 0.0
    return [_row(name, store, samples, ping) for name, samples in taken.items()]


def _granted(fleet: Fleet, plan: object, *, started: bool = False) -> Lease:
    lease = fleet.reserve(plan, started=started).lease  # type: ignore[arg-type]  # a plan
    if lease is None:
        raise AssertionError("a call was refused that fits")
    return lease


def _in_turn(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            began = time.perf_counter()
            call()
            taken[name].append((time.perf_counter() - began) * 1e6)
    return taken


async def _from_a_loop(fleet: Fleet, rounds: int) -> list[float]:
    plan, taken = payment("c"), []
    for _ in range(rounds):
        began = time.perf_counter()
        lease = (await fleet.areserve(plan)).lease
        if lease is None:
            raise AssertionError("a call was refused that fits")
        await fleet.astart(lease)
        fleet.finish(lease, "commit")
        taken.append((time.perf_counter() - began) * 1e6)
    return taken


def _row(name: str, store: str, samples: list[float], ping: float) -> Row:
    ordered = sorted(samples)
    median = statistics.median(ordered)
    ratio: str | float = median / ping if ping else "-"
    return (name, store, median, ordered[len(ordered) * 99 // 100], ratio)
