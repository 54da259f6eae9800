"""
``python -m benchmarks NAME [arguments]``: runs one of the benchmarks, or ``all`` that measure time.

    python -m benchmarks gate                 a table on the terminal
    python -m benchmarks all --json FILE      all of them, and as JSON
    python -m benchmarks all --page           all of them, and docs/performance.md with its plots
    python -m benchmarks all --quick          does it still run? The numbers mean nothing
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

# Each module has `main(argv) -> int`, and is imported when its name is given.
COMMANDS = {
    "agentdojo": "benchmarks.agentdojo.command",
    "correctness": "benchmarks.correctness",
    "console": "benchmarks.console",
    "evidence-attacks": "benchmarks.evidence_attacks",
    "fleet": "benchmarks.fleet.command",
    "fleet-torture": "benchmarks.fleet.torture",
    "load": "benchmarks.load",
}

# Each module has `measure(quick) -> Table`.
MEASUREMENTS = {
    "gate": "benchmarks.gate",
    "templates": "benchmarks.templates",
    "session-length": "benchmarks.session_length",
    "refusal": "benchmarks.refusal",
    "keys": "benchmarks.keys",
    "evidence": "benchmarks.evidence_costs",
    "threads": "benchmarks.threads",
    "memory": "benchmarks.memory",
    "over-http": "benchmarks.over_http",
    "runs": "benchmarks.runs",
    "round-trips": "benchmarks.round_trips",
    "sessions": "benchmarks.sessions",
    "startup": "benchmarks.startup",
    "hooks": "benchmarks.hooks",
    "analyse": "benchmarks.analysing",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark that `argv` names; 2 if it names none."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args and args[0] in COMMANDS:
        status: int = import_module(COMMANDS[args[0]]).main(args[1:])
        return status
    if args and (args[0] == "all" or args[0] in MEASUREMENTS):
        from .measuring import run

        chosen = MEASUREMENTS if args[0] == "all" else {args[0]: MEASUREMENTS[args[0]]}
        return run(chosen, args[1:])
    names = ",".join(sorted([*COMMANDS, *MEASUREMENTS, "all"]))
    print(f"usage: python -m benchmarks {{{names}}} [arguments]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
