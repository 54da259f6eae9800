"""Processes that all want more than one limit allows, and an outside count of what each was granted."""

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

PROCESSES = 8
CALLS = 10_000


def measure(redis_url: str, folder: Path, *, quick: bool) -> Table:
    """Let processes make twice as many calls as one limit allows, then as many as it allows."""
    processes, calls = (2, 50) if quick else (PROCESSES, CALLS)
    stores = {"redis": redis_url, "sqlite": f"sqlite:///{folder / 'limit.db'}"}
    rows: list[Row] = []
    for store, url in stores.items():
        for share in (2, 1):
            limit = processes * calls // share
            granted, seconds = _run(url, f"limit-{share}", processes, calls, limit)
            rows.append((store, processes * calls, limit, granted, granted - limit, seconds))
    return Table(
        name="fleet-limit",
        title=f"{processes} processes at one limit",
        columns=("store", "calls", "limit", "granted", "too many", "seconds"),
        rows=rows,
        notes="`granted` is what the processes counted themselves. Each call of these is committed.",
    )


def _run(url: str, name: str, processes: int, calls: int, limit: int) -> tuple[int, float]:
    spawn = multiprocessing.get_context("spawn")
    barrier, out = spawn.Barrier(processes + 1), spawn.Queue()
    asked = (url, name, calls, limit, barrier, out)
    workers = [spawn.Process(target=_work, args=asked) for _ in range(processes)]
    for worker in workers:
        worker.start()
    barrier.wait()
    began = time.perf_counter()
    granted = sum(out.get() for _ in workers)
    taken = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return granted, taken


def _work(url: str, name: str, calls: int, limit: int, barrier: Barrier, out: Any) -> None:
    granted = 0
    with closing(open_fleet(url)) as fleet:
        fleet.timeout_seconds = 30
        fleet.prepare()
        barrier.wait()
        for _ in range(calls):
            lease = fleet.reserve(payment(name, limit=limit), started=True).lease
            if lease is not None:
                granted += 1
                fleet.finish(lease, "commit")
    out.put(granted)
