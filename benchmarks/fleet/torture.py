"""
``python -m benchmarks fleet-torture``: workers and store are killed, stopped, cut off and emptied under load.

Whatever happens, an outside count of what was really paid may never be more than the limit. At the end, once
every lease is over, what was not paid has to be explained by workers that were killed after they had started
a call: everything else is free again, and is spent.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from openbox_agentrt.fleet import FleetUnavailableError, open_fleet
from tests.fleet.plans import spend
from tests.fleet.proxy import Proxy
from tests.fleet.redis_server import RedisServer

from .ledger import KEYS, pay

AMOUNT = 100


WORKS = {
    "calls": "benchmarks.fleet.torture",
    "sessions": "benchmarks.fleet.torture_sessions",
    "pauses": "benchmarks.fleet.torture_pauses",
}
"""What workers do, and the module that does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What an attack came to.

    Attributes:
        paid: How often each customer was really paid.
        limit: How often each may be.
        kills: How many workers were killed.
        faults: What else was done, counted.
    """

    paid: Counter[str]
    limit: int
    kills: int
    faults: Counter[str]

    def done(self) -> str:
        """Say what was done besides."""
        return ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))

    def oversold(self) -> int:
        """Count payments beyond the limit."""
        return sum(max(0, count - self.limit) for count in self.paid.values())

    def missing(self) -> int:
        """Count what was neither paid nor is free: at most one call a killed worker."""
        return sum(max(0, self.limit - self.paid[f"c{n}"]) for n in range(KEYS))


def attack(
    store: str,
    folder: Path,
    *,
    seconds: float,
    workers: int,
    limit: int,
    lease: float,
    seed: int,
    what: str = "calls",
) -> Outcome:
    """Attack a store for so many seconds, let everything end, and count. What is done in it: see `WORKS`."""
    rnd, faults, kills = random.Random(seed), Counter[str](), 0
    paid = folder / "paid.log"
    paid.touch()
    with ExitStack() as stack:
        server = proxy = None
        url = f"sqlite:///{folder / 'fleet.db'}"
        if store == "redis":
            # Written to disk before it is acknowledged: a server that is killed forgets nothing.
            server = stack.enter_context(
                RedisServer(folder, "--appendonly", "yes", "--appendfsync", "always")
            )
            proxy = stack.enter_context(Proxy(server.port))
            url = f"redis://127.0.0.1:{proxy.port}/0"

        def start() -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "benchmarks.fleet.torture", "--work", what, url]
            return subprocess.Popen([*command, str(paid), str(limit), str(lease)])

        running = [start() for _ in range(workers)]
        stack.callback(end_all, running)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            # A worker that runs agents needs seconds to begin.
            time.sleep(rnd.uniform(0.02, 0.2) * (8 if what == "pauses" else 1))
            draw = rnd.random()
            at = rnd.randrange(workers)
            if draw < 0.35:
                faults["kill"] += 1
                kills += 1
                end(running[at])
                running[at] = start()
            elif draw < 0.55:
                faults["stop"] += 1
                running[at].send_signal(signal.SIGSTOP)
                time.sleep(rnd.choice([0.1, 1.5 * lease]))
                running[at].send_signal(signal.SIGCONT)
            elif server is None or proxy is None:
                continue
            elif draw < 0.80:
                faults["answer lost"] += 1
                proxy.drops += rnd.randrange(1, 4)
            elif draw < 0.90:
                faults["server stopped"] += 1
                server.stop()
                time.sleep(rnd.choice([0.1, 0.6]))
                server.go_on()
            else:
                faults["server killed"] += 1
                server.kill()
                time.sleep(rnd.choice([0.0, 0.7]))
                server.start()
        for one in running:
            one.send_signal(signal.SIGTERM)
        for one in running:
            one.wait()
        if proxy is not None:
            proxy.drops = 0
        import_module(WORKS[what]).spend_what_is_left(url, paid, limit, lease)
        return Outcome(paid=Counter(paid.read_text().split()), limit=limit, kills=kills, faults=faults)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a worker at once."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
        process.kill()
    process.wait()


def end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    """End those that are running now."""
    for process in processes:
        end(process)


def spend_what_is_left(url: str, paid: Path, limit: int, lease: float) -> None:
    """Pay until every customer has been refused for longer than a lease."""
    refused: dict[str, float] = {}
    with closing(open_fleet(url, lease_seconds=lease)) as fleet:
        fleet.timeout_seconds = 5
        begun = time.monotonic()
        while len(refused) < KEYS or time.monotonic() - begun < 3 * lease:
            key = f"c{random.randrange(KEYS)}"
            with suppress(FleetUnavailableError):
                reserved = fleet.reserve(spend(AMOUNT, AMOUNT * limit, key=key), started=True).lease
                if reserved is None:
                    refused[key] = time.monotonic()
                    time.sleep(0.01)
                    continue
                pay(paid, key)
                fleet.finish(reserved, "commit")
                refused.pop(key, None)


def work(url: str, paid: Path, limit: int, lease: float) -> None:
    """Be a worker until somebody ends it."""
    rnd, ending = random.Random(), []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    with closing(open_fleet(url, lease_seconds=lease)) as fleet:
        while not ending:
            key = f"c{rnd.randrange(KEYS)}"
            try:
                reserved = fleet.reserve(spend(AMOUNT, AMOUNT * limit, key=key)).lease
                if reserved is None:
                    time.sleep(0.01)
                    continue
            except FleetUnavailableError:
                time.sleep(0.02)
                continue
            time.sleep(rnd.choice([0, 0, 0.005, 0.05]))
            may = False
            with suppress(FleetUnavailableError):
                may = fleet.start(reserved)
            if not may:
                fleet.finish(reserved, "undo")
                continue
            pay(paid, key)
            time.sleep(rnd.choice([0, 0.01]))
            fleet.finish(reserved, "commit")


def main(argv: Sequence[str] | None = None) -> int:
    """Attack one store or both; 1 if a limit did not hold, or something was lost."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--work"]:
        what, url, paid, limit, lease = arguments[1:]
        import_module(WORKS[what]).work(url, Path(paid), int(limit), float(lease))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks fleet-torture")
    parser.add_argument("--store", choices=["redis", "sqlite", "both"], default="both")
    parser.add_argument("--what", choices=list(WORKS), default="calls")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    bad = False
    for store in ("redis", "sqlite") if options.store == "both" else (options.store,):
        said, held = _pauses(store, options) if options.what == "pauses" else _payments(store, options)
        bad |= not held
        print(f"{store}: {said}", flush=True)
    return int(bad)


def _payments(store: str, options: argparse.Namespace) -> tuple[str, bool]:
    outcome = _attacked(store, options, options.limit)
    # Whoever slept beyond its lease may have had a call under way, which a session then counts as well.
    most = outcome.kills + (outcome.faults["stop"] if options.what == "sessions" else 0)
    said = f"paid {outcome.paid.total()} of {outcome.limit * KEYS}, oversold {outcome.oversold()}"
    said += f", missing {outcome.missing()} of at most {most} ({outcome.done()})"
    return said, not outcome.oversold() and outcome.missing() <= most


def _pauses(store: str, options: argparse.Namespace) -> tuple[str, bool]:
    from .torture_pauses import a_person_and_core

    with a_person_and_core() as person:
        outcome = _attacked(store, options, 10**6)
    twice = sum(count - 1 for count in outcome.paid.values())
    raw = sum(not each.endswith("/[card]") for each in outcome.paid)
    said = f"{len(person.said)} payments that a person allowed, made {len(outcome.paid)}, made twice {twice}"
    lost = len(person.said) - len(outcome.paid)
    said += f", with what was redacted {raw}, lost {lost} of at most {outcome.kills} ({outcome.done()})"
    return said, not twice and not raw and lost <= outcome.kills


def _attacked(store: str, options: argparse.Namespace, limit: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return attack(
            store,
            Path(folder),
            seconds=options.seconds,
            workers=options.workers,
            limit=limit,
            lease=1.0,
            seed=options.seed,
            what=options.what,
        )


if __name__ == "__main__":
    sys.exit(main())
