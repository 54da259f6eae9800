"""``python -m benchmarks NAME [arguments]``: runs one of the benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

# Each module has `main(argv) -> int`, and is imported when its name is given.
COMMANDS = {
    "agentdojo": "benchmarks.agentdojo.command",
    "correctness": "benchmarks.correctness",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark that `argv` names; 2 if it names none."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] not in COMMANDS:
        print(f"usage: python -m benchmarks {{{','.join(sorted(COMMANDS))}}} [arguments]", file=sys.stderr)
        return 2
    status: int = import_module(COMMANDS[args[0]]).main(args[1:])
    return status


if __name__ == "__main__":
    sys.exit(main())
