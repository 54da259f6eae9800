"""How long an event loop stands still while its store hangs, and while it does not."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.fleet import Fleet, open_fleet
from tests.fleet.redis_server import RedisServer

from ..tables import Row, Table

CALLERS = 8
TICK = 0.001

_LOCKS = """
import fcntl, sqlite3, sys, time
gate = open(sys.argv[1] + ".gate")
fcntl.flock(gate, fcntl.LOCK_EX)
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""


def measure(server: RedisServer, folder: Path, *, quick: bool) -> Table:
    """Let each store hang while several tasks ask it in a loop, and see how late a timer of 1 ms comes."""
    seconds = 0.02 if quick else 2.0
    file = folder / "hanging.db"
    stores: dict[str, tuple[str, Callable[[], Callable[[], None]]]] = {
        "redis": (server.url, lambda: _stopped(server)),
        "sqlite": (f"sqlite:///{file}", lambda: _locked(file, seconds)),
    }
    rows: list[Row] = []
    for store, (url, hang) in stores.items():
        for durable in (False, True):
            rows += asyncio.run(_watched(store, url, hang, seconds, durable=durable))
    return Table(
        name="fleet-hanging",
        title="A store that hangs, and the event loop that asks it",
        columns=(
            "store",
            "asked for",
            "the store",
            "calls",
            "refused",
            "lag p50 us",
            "p99 us",
            "longest us",
            "busy in it us",
        ),
        rows=rows,
        notes=f"{CALLERS} tasks ask in a loop. Lag: how much later than asked a timer of 1 ms comes. Nobody"
        " asks in the row `idle`, which says what the machine itself adds; `busy in it` is what this process"
        " has computed in the longest, in all its threads. No garbage is collected meanwhile. The store"
        f" hangs for {seconds:g} s: the server is stopped, the file is locked by another process.",
    )


async def _watched(
    store: str, url: str, hang: Callable[[], Callable[[], None]], seconds: float, *, durable: bool
) -> list[Row]:
    what = "durable sessions" if durable else "calls of the fleet"
    rows: list[Row] = []
    with closing(open_fleet(url)) as fleet:
        sessions = [_session(fleet, f"{store}-{n}", durable=durable) for n in range(CALLERS)]
        for session in sessions:
            await _call(session)
        rows.append((store, what, "idle", *await _phase([], seconds)))
        rows.append((store, what, "answers", *await _phase(sessions, seconds)))
        go_on = hang()
        rows.append((store, what, "hangs", *await _phase(sessions, seconds)))
        go_on()
        while not await _call(sessions[0]):
            pass  # each one waits for an answer
        rows.append((store, what, "answers again", *await _phase(sessions, seconds)))
    return rows


def _session(fleet: Fleet, name: str, *, durable: bool) -> Session:
    if durable:
        return Session(contracts=[at_most_n_times("pay", 10**6)], fleet=fleet, durable=True, session_id=name)
    return Session(contracts=[at_most_n_times("pay", 10**6, scope="fleet", per="day")], fleet=fleet)


async def _phase(sessions: list[Session], seconds: float) -> tuple[int, int, float, float, float, float]:
    until, made = time.perf_counter() + seconds, [0, 0]
    lags: list[tuple[float, float]] = []

    async def caller(session: Session) -> None:
        while time.perf_counter() < until:
            made[0 if await _call(session) else 1] += 1
            await asyncio.sleep(0.002)

    # A collection of garbage stops every loop, whatever it does: up to 80 ms here.
    gc.collect()
    gc.disable()
    callers = [asyncio.create_task(caller(session)) for session in sessions]
    while not lags or time.perf_counter() < until:
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(TICK)
        late = time.perf_counter() - began - TICK
        lags.append((late * 1e6, (time.process_time() - used) * 1e6))
    # Who waits for a store that hangs goes on after the time was measured.
    await asyncio.gather(*callers)
    gc.enable()
    lags.sort()
    at = len(lags)
    return sum(made), made[1], lags[at // 2][0], lags[at * 99 // 100][0], *lags[-1]


async def _call(session: Session) -> bool:
    call = await session.areserve("pay")
    if not (call.allowed and await call.astart()):
        return False
    call.commit("paid")
    return True


def _stopped(server: RedisServer) -> Callable[[], None]:
    server.stop()
    return server.go_on


def _locked(file: Path, seconds: float) -> Callable[[], None]:
    # Longer than is measured, so that it is locked all the time.
    command = [sys.executable, "-c", _LOCKS, str(file), str(60 + seconds)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "locked"

    def go_on() -> None:
        with suppress(ProcessLookupError):
            holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()

    return go_on
