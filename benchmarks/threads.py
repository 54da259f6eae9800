"""One session that several threads call at once."""

from __future__ import annotations

import threading
from time import perf_counter

from . import peers
from .tables import Row, Table

COUNTS = (1, 2, 4, 8)


def measure(quick: bool) -> Table:
    """Time for a call, all threads together; more threads cannot be faster under one interpreter lock."""
    calls, rounds = (100, 2) if quick else (20_000, 15)
    rows: list[Row] = []
    base = 0.0
    for count in COUNTS[:2] if quick else COUNTS:
        taken = min(_run(count, calls) for _ in range(rounds))
        base = base or taken
        rows.append((f"{count} threads", "openbox_agentrt", taken * 1e6, taken / base))
    return Table(
        name="threads",
        title="One session, several threads",
        columns=("case", "who", "best us a call", "to one thread"),
        rows=rows,
        notes="200 contracts, three about the tool; the time is that of all calls, divided by their number.",
    )


def _run(count: int, calls: int) -> float:
    session = peers.our_session(200, 3, max_trace=1000)
    call = peers.our_call(session)
    start = threading.Barrier(count + 1)

    def work() -> None:
        start.wait()
        for _ in range(calls // count):
            call()

    workers = [threading.Thread(target=work) for _ in range(count)]
    for worker in workers:
        worker.start()
    start.wait()
    began = perf_counter()
    for worker in workers:
        worker.join()
    if session.in_flight:
        raise AssertionError("a call was lost between threads")
    return (perf_counter() - began) / (calls // count * count)
