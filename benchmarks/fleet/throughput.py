"""How many calls a store carries, by processes, over one hot counter and spread over many."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from openbox_agentrt.fleet import open_fleet

from ..tables import Row, Table
from .plans import payment

LIMIT = 10**9


def measure(redis_url: str, folder: Path, *, quick: bool) -> Table:
    """Run several processes at once. Every call is granted, and the store's count is looked up afterwards."""
    calls = 50 if quick else 1500
    rows: list[Row] = []
    stores = {"redis": redis_url, "sqlite": f"sqlite:///{folder / 'throughput.db'}"}
    for store, url in stores.items():
        for processes in (1, 2) if quick else (1, 2, 4, 8):
            for keys in ("hot", "spread"):
                for trips in ("three steps", "one trip"):
                    name = f"{processes}-{keys}-{trips}"
                    rows.append(
                        (store, processes, keys, trips, *_run(url, name, processes, calls, keys, trips))
                    )
    return Table(
        name="fleet-throughput",
        title="Processes side by side",
        columns=(
            "store",
            "processes",
            "counters",
            "a call is",
            "gates/s",
            "p50 us",
            "p99 us",
            "longest ms",
            "exact",
        ),
        rows=rows,
        notes="Three contracts about the call, all granted; one counts all calls in one cell, so `spread`"
        " is not free of it. `exact`: the store counted as many as were granted.",
    )


def _run(url: str, name: str, processes: int, calls: int, keys: str, trips: str) -> tuple[Any, ...]:
    spawn = multiprocessing.get_context("spawn")
    barrier, out = spawn.Barrier(processes + 1), spawn.Queue()
    workers = [
        spawn.Process(target=_work, args=(url, name, n, calls, keys, trips, barrier, out))
        for n in range(processes)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    began = time.perf_counter()
    samples = sorted(sample for _ in workers for sample in out.get())
    taken = time.perf_counter() - began
    for worker in workers:
        worker.join()
    exact = "-" if keys != "hot" else "yes" if _spent(url, name) == processes * calls else "NO"
    at = len(samples)
    return (at / taken, samples[at // 2], samples[at * 99 // 100], samples[-1] / 1000, exact)


def _work(
    url: str, name: str, number: int, calls: int, keys: str, trips: str, barrier: Barrier, out: Any
) -> None:
    samples = []
    with closing(open_fleet(url)) as fleet:
        fleet.timeout_seconds = 10
        fleet.reserve(payment(f"{name}-warm-{number}"), started=True)
        barrier.wait()
        for n in range(calls):
            plan = payment(name if keys == "hot" else f"{name}-{number}-{n % 50}")
            began = time.perf_counter()
            lease = fleet.reserve(plan, started=trips == "one trip").lease
            if lease is None:
                raise AssertionError("a call was refused that fits")
            if trips != "one trip":
                fleet.start(lease)
            fleet.finish(lease, "commit")
            samples.append((time.perf_counter() - began) * 1e6)
    out.put(samples)


def _spent(url: str, name: str) -> int:
    with closing(open_fleet(url)) as fleet:
        fleet.timeout_seconds = 10
        # A limit of 0 refuses, and says what was counted.
        return fleet.reserve(payment(name, limit=0)).broken[0].total
