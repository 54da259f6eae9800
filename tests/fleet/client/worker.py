"""A worker in a process of its own: it reserves what it is told, says so, and waits to be told to go on."""

from __future__ import annotations

import sys

from openbox_agentrt.fleet import open_fleet
from tests.fleet.plans import at_most


def main() -> None:
    """Arguments: the store's URL, the length of a lease, and how far to go: `reserve` or `start`."""
    url, lease_seconds, how_far = sys.argv[1:]
    fleet = open_fleet(url, lease_seconds=float(lease_seconds), timeout_seconds=20)
    lease = fleet.reserve(at_most(1), started=how_far == "start").lease
    print("refused" if lease is None else "reserved", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "start" and lease is not None:
            print("may" if fleet.start(lease) else "may not", flush=True)
        elif word == "commit" and lease is not None:
            print(fleet.finish(lease, "commit", soon=False).result(20).said, flush=True)


if __name__ == "__main__":
    main()
