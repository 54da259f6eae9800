"""Settling what a dead worker left open: what it reserved is given back, what it started is unknown."""

from __future__ import annotations

from collections.abc import Iterable

from ..steps import Beat, Finish, StoreLine

_AT_ONCE = 32


def settle_worker(line: StoreLine, worker: str, *, person: bool = False) -> dict[str, str]:
    """
    Settle the open leases of a worker whose lease is over, and forget the worker.

    Two that settle the same worker do no harm.

    Args:
        line: The store.
        worker: Whose.
        person: Whether somebody who knows says that it is dead, whatever its lease says.

    Returns:
        The state of each lease that was settled; none for a worker that lives.
    """
    settled: dict[str, str] = {}
    open_leases = list(line.open_leases(worker).items())
    for at in range(0, len(open_leases), _AT_ONCE):
        some = open_leases[at : at + _AT_ONCE]
        answers = line.run(
            [
                Finish(
                    lease=lease,
                    worker=worker,
                    how="settle",
                    cells=tuple(cell.id for cell in plan.c),
                    person=person,
                )
                for lease, plan in some
            ]
        )
        for (lease, _), answer in zip(some, answers, strict=True):
            if answer.said == "alive":
                return settled
            if answer.said == "ok":
                settled[lease] = answer.state
    line.run([Beat(worker=worker, lease_us=0, leave=True)])
    return settled


def settle_all(line: StoreLine, workers: Iterable[str]) -> int:
    """Settle what several dead workers left. Returns how many leases that were."""
    return sum(len(settle_worker(line, worker)) for worker in workers)
