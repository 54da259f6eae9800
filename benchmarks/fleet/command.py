"""``python -m benchmarks fleet``: the stores of a fleet side by side, with a server that is started here."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.redis_server import BINARY, RedisServer

from ..tables import Table

PARTS = ("latency", "throughput", "limit", "memory", "sessions", "hanging")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that are named, or all; 2 if no server is installed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fleet")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="only see whether it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE, too")
    options = parser.parse_args(argv)
    if BINARY is None:
        print("redis-server is missing: install Redis or Valkey", file=sys.stderr)
        return 2
    tables: list[Table] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with RedisServer(folder) as server:
            for part in options.parts or PARTS:
                for table in _tables(part, server, folder, options.quick):
                    print(f"{table.to_text()}\n", flush=True)
                    tables.append(table)
    if options.json is not None:
        numbers = [table.to_dict() for table in tables]
        options.json.write_text(f"{json.dumps(numbers, indent=1)}\n", encoding="utf-8")
    return 0


def _tables(part: str, server: RedisServer, folder: Path, quick: bool) -> Sequence[Table]:
    url = server.url
    if part == "hanging":
        from . import hanging

        return [hanging.measure(server, folder, quick=quick)]
    if part == "latency":
        from . import latency

        return [latency.measure(url, folder, quick=quick)]
    if part == "throughput":
        from . import throughput

        return [throughput.measure(url, folder, quick=quick)]
    if part == "limit":
        from . import limit

        return [limit.measure(url, folder, quick=quick)]
    if part == "sessions":
        from . import sessions

        return [sessions.measure(url, folder, quick=quick)]
    from . import memory

    return memory.measure(url, quick=quick)
