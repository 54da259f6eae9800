"""What a durable session adds to a call, beside the same session in memory; and what moving one costs."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, must_precede
from openbox_agentrt.acel.engine.durable.keep import kept_of
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.fleet import Fleet, RedisFleet, SqliteFleet

from ..tables import Row, Table

KEYS = (1, 100, 1000)

CORE_SECONDS = 0.002
"""What Core takes to answer on the loopback."""


def measure(redis_url: str, folder: Path, *, quick: bool) -> Table:
    """Time calls of one session, one at a time, with so many values of a key behind it."""
    rounds = 12 if quick else 400
    rows: list[Row] = []
    url = f"{redis_url}?namespace={uuid.uuid4().hex}"
    for keys in KEYS[:1] if quick else KEYS:
        rows += _rows("memory", None, keys, rounds)
        with closing(RedisFleet(url, timeout_seconds=5)) as fleet:
            rows += _rows("redis", fleet, keys, rounds)
        with closing(SqliteFleet(folder / "sessions.db", timeout_seconds=5)) as fleet:
            rows += _rows("sqlite", fleet, keys, rounds)
    return Table(
        name="fleet-sessions",
        title="One durable session, one call at a time",
        columns=("what", "memory in", "values of a key", "median us", "p99 us"),
        rows=rows,
        notes="Three contracts with a key about the call. While Core is asked: "
        f"{CORE_SECONDS * 1000:.0f} ms pass between reserve and start, and are taken off. Written whole:"
        " all that the session remembers, as a snapshot would be.",
    )


def _session(fleet: Fleet | None, name: str) -> Session:
    contracts = [
        must_precede("verify", "pay", key="k"),
        at_most_n_times("pay", 1_000_000, key="k"),
        at_most_total("pay", "n", 1_000_000, key="k"),
    ]
    more: dict[str, Any] = {} if fleet is None else {"fleet": fleet, "durable": True}
    return Session(contracts=contracts, session_id=name, max_trace=64, **more)


def _rows(store: str, fleet: Fleet | None, keys: int, rounds: int) -> list[Row]:
    session = _session(fleet, uuid.uuid4().hex)
    for number in range(keys):
        session.call("verify", {"k": f"c-{number}"}, result=1)
        session.call("pay", {"k": f"c-{number}", "n": 1}, result=1)
    args = {"k": "c-0", "n": 1}
    taken = {"reserve, start, commit": _timed(lambda: _call(session, args), rounds)}
    taken["the same, while Core is asked"] = asyncio.run(_beside_core(session, args, rounds))
    if fleet is not None:
        taken |= _moved(session, fleet, rounds)
        session.release()
    return [_row(name, store, keys, samples) for name, samples in taken.items()]


def _moved(session: Session, fleet: Fleet, rounds: int) -> dict[str, list[float]]:
    kept = kept_of(engine_of(session)).session
    record: Any = kept

    def whole() -> None:
        record._record.write_whole()
        kept.wait(kept.write())

    taken = {"written whole": _timed(whole, rounds // 4)}
    _release(session)
    taken["held anew and loaded"] = _loaded(fleet, session.session_id or "", rounds // 4)
    session.hold()
    return taken


def _loaded(fleet: Fleet, name: str, rounds: int) -> list[float]:
    """Take the session as a process that knows nothing of it: what the store has is loaded."""
    taken = []
    for _ in range(rounds):
        session = _session(fleet, name)
        taken += _timed(session.hold, 1)
        _release(session)
    return taken


def _release(session: Session) -> None:
    """Let go of a session, and wait until others can have it."""
    session.release()
    while kept_of(engine_of(session)).session.is_held:
        time.sleep(0.0002)


def _call(session: Session, args: dict[str, Any]) -> None:
    call = session.reserve("pay", args)
    if not (call.allowed and call.start()):
        raise AssertionError("a call was refused that fits")
    call.commit(1)


async def _beside_core(session: Session, args: dict[str, Any], rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        call = await session.areserve("pay", args)
        asked = time.perf_counter()
        await asyncio.sleep(CORE_SECONDS)
        answered = time.perf_counter()
        if not (call.allowed and await call.astart()):
            raise AssertionError("a call was refused that fits")
        call.commit(1)
        taken.append((time.perf_counter() - answered + asked - began) * 1e6)
    return taken


def _timed(call: Callable[[], object], rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1e6)
    return taken


def _row(name: str, store: str, keys: int, samples: list[float]) -> Row:
    ordered = sorted(samples)
    return (name, store, keys, statistics.median(ordered), ordered[len(ordered) * 99 // 100])
