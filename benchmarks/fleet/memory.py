"""What a key costs in a server's memory, and from that, what one server carries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from openbox_agentrt.fleet import Fleet, FleetCell, FleetGuard, FleetMove, FleetPlan, Lease, RedisFleet

from ..tables import Row, Table
from .plans import payment

HOUR = 3_600_000_000
GATES_A_SECOND = 2500
"""What one server carries with three steps a call; see `throughput`."""


def measure(redis_url: str, *, quick: bool) -> tuple[Table, Table]:
    """Fill a server, and multiply."""
    count = 50 if quick else 4000
    costs = {name: fill(redis_url, count) for name, fill in _fillers().items()}
    rows: list[Row] = [(name, "redis", cost) for name, cost in costs.items()]
    keys = Table(
        name="fleet-memory",
        title="What is kept",
        columns=("what", "store", "bytes"),
        rows=rows,
        notes=f"Memory in use after {count:,} of them, less before, divided.",
    )
    return keys, _paper(costs)


def _fillers() -> dict[str, Callable[[str, int], float]]:
    def one(kind: Any, **more: Any) -> Callable[[int], FleetPlan]:
        def plan(n: int) -> FleetPlan:
            cell = FleetCell(kind=kind, name="n", key=f"customer-{n:07}", **more)
            amount = 100 if kind == "sum" else None
            guard = FleetGuard(kind="spend" if kind == "sum" else "cap", cell=0, n=10**9, amount=amount)
            return FleetPlan(cells=(cell,), guards=(guard,), moves=(FleetMove(cell=0, amount=amount),))

        return plan

    return {
        "counter, a key": _ended(one("tally")),
        "amount per day, a key": _ended(one("sum", per="day", scale=2)),
        "window of an hour, one call, a key": _ended(one("stamps", within=HOUR)),
        "lease, open": _left_open,
        "lease, ended within the last minute": _tombstones,
    }


def _ended(plan: Callable[[int], FleetPlan]) -> Callable[[str, int], float]:
    def fill(url: str, count: int) -> float:
        with _worker(url) as fleet:
            lease: Lease | None = None
            before = _used(url)
            for n in range(count):
                lease = fleet.reserve(plan(n), started=True).lease
                assert lease is not None
                fleet.finish(lease, "commit")
            assert lease is not None
            fleet.finish(lease, "commit", soon=False).result(10)
            _client(url).eval(_FORGET, 0)
            return (_used(url) - before) / count

    return fill


def _left_open(url: str, count: int) -> float:
    with _worker(url) as fleet:
        fleet.reserve(payment("c"), started=True)
        before = _used(url)
        for _ in range(count):
            fleet.reserve(payment("c"))
        return (_used(url) - before) / count


def _tombstones(url: str, count: int) -> float:
    with _worker(url) as fleet:
        fleet.reserve(payment("c"), started=True)
        lease: Lease | None = None
        before = _used(url)
        for _ in range(count):
            lease = fleet.reserve(payment("c"), started=True).lease
            assert lease is not None
            fleet.finish(lease, "commit")
        assert lease is not None
        fleet.finish(lease, "commit", soon=False).result(10)
        return (_used(url) - before) / count


_FORGET = """
for _, key in ipairs(redis.call('KEYS', '*:l:*')) do redis.call('DEL', key) end
return 1
"""


@contextmanager
def _worker(url: str) -> Iterator[Fleet]:
    _client(url).flushall()
    with closing(RedisFleet(url, timeout_seconds=10)) as fleet:
        yield fleet


def _paper(costs: dict[str, float]) -> Table:
    per_day, counter = costs["amount per day, a key"], costs["counter, a key"]
    rows: list[Row] = []
    for customers in (1_000, 10_000, 100_000, 1_000_000):
        # Ten calls a customer and day, a third of them within the busiest two hours.
        busiest = customers * 10 / 3 / 7200
        memory = customers * (per_day + counter) + busiest * 60 * costs["lease, ended within the last minute"]
        rows.append(
            (f"{customers:,}", "redis", customers * 2, memory / 1e6, busiest, busiest / GATES_A_SECOND * 100)
        )
    return Table(
        name="fleet-paper",
        title="One server, on paper",
        columns=("customers", "store", "keys", "memory MB", "gates/s at the busiest", "% of a server"),
        rows=rows,
        notes="Two contracts per customer, one of them per day; ten calls a customer and day, a third of them"
        f" within two hours; {GATES_A_SECOND:,} gates/s a server.",
    )


def _used(url: str) -> int:
    return int(_client(url).info("memory")["used_memory"])


def _client(url: str) -> Any:
    import redis

    return redis.Redis.from_url(url, protocol=2)
