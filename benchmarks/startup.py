"""Importing, and the command line from cold."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

from .tables import Row, Table
from .timing import spread

BARE = "python -c pass"
COMMANDS = {
    BARE: ("-c", "pass"),
    "import openbox_agentrt": ("-c", "import openbox_agentrt"),
    "import openbox_agentrt.acel": ("-c", "import openbox_agentrt.acel"),
    "acel.Session": ("-c", "import openbox_agentrt.acel as acel; acel.Session"),
    "import acel (acel-core)": ("-c", "import acel"),
    "import agent_rt": ("-c", "import agent_rt"),
    "create_openbox_agentrt": ("-c", "import openbox_agentrt; openbox_agentrt.create_openbox_agentrt"),
    "openbox-agentrt --help": ("-m", "openbox_agentrt.cli", "--help"),
    "openbox-agentrt validate --help": ("-m", "openbox_agentrt.cli", "validate", "--help"),
}


def measure(quick: bool) -> Table:
    """Wall time of new processes, in turns, over one that does nothing."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(1 if quick else 25):
        for name, arguments in COMMANDS.items():
            began = perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            taken[name].append((perf_counter() - began) * 1e3)
    spreads = {name: spread(samples) for name, samples in taken.items()}
    bare = spreads[BARE].median
    rows: list[Row] = [
        (name, "process", found.median, found.p95, found.median - bare) for name, found in spreads.items()
    ]
    return Table(
        name="startup",
        title="Start-up",
        columns=("case", "who", "median ms", "p95 ms", "over bare ms"),
        rows=rows,
    )
