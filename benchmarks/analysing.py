"""How long it takes to know rules before they run, by the number of contracts."""

from __future__ import annotations

import random
import resource
import sys
import time
from typing import Any

from openbox_agentrt.acel.analysis import analyse, compare
from openbox_agentrt.acel.analysis.mining.mine import mine
from openbox_agentrt.acel.analysis.mining.recorded_sessions import Recorded
from openbox_agentrt.acel.events import ToolCallEvent
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

from .tables import Row, Table

SIZES = (10, 50, 200, 1000)
SECONDS = 10.0


def rules_of(size: int, *, limit: int = 500) -> Rules:
    """Make rules as people write them: for each of some services a handful of contracts over its tools."""
    contracts: list[dict[str, Any]] = []
    service = 0
    while len(contracts) < size:
        contracts += _service(f"s{service}", limit if service == 0 else 500)
        service += 1
    return parse_rules({"contracts": contracts[:size]})


def _service(name: str, limit: int) -> list[dict[str, Any]]:
    read, write, pay, run = (f"{name}_{tool}" for tool in ("read", "write", "pay", "run"))
    listed: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("must_precede", [read, pay], {"key": "customer"}),
        ("at_most_n_times", [pay, 1], {"key": "customer"}),
        ("at_most_total", [pay, "amount", limit], {}),
        ("rate_limit", [write, 3, 60], {}),
        ("response", [write, f"{name}_check"], {}),
        ("never", [{"tool": run, "matches": "rm -rf"}], {}),
        ("must_precede", [f"{name}_test", {"tool": run, "matches": "^git push"}], {}),
        ("mutually_exclusive", [f"{name}_prod", f"{name}_dev"], {}),
        ("max_distinct", [f"{name}_mail", "to", 3], {}),
        ("never", [f"{name}_admin_*"], {}),
    ]
    return [{"template": template, "args": args, **more} for template, args, more in listed]


def sessions_of(calls: int) -> list[Recorded]:
    """Make sessions of forty calls, over twenty tools: what was looked at is changed, the rest is chance."""
    random_ = random.Random(1)
    return [_session(random_, str(number)) for number in range(max(1, calls // 40))]


def _session(random_: random.Random, name: str) -> Recorded:
    calls: list[ToolCallEvent] = []
    while len(calls) < 40:
        what, number = random_.randrange(5), f"r-{random_.randrange(900)}"
        calls.append(ToolCallEvent(f"look_{what}", {"id": number}, ts=0.0))
        if random_.random() < 0.5:
            calls.append(ToolCallEvent(f"change_{what}", {"id": number, "amount": 5}, ts=0.0))
        if random_.random() < 0.5:
            calls.append(ToolCallEvent(f"other_{random_.randrange(10)}", {"id": number[::-1]}, ts=0.0))
    return Recorded(name=name, calls=tuple(calls[:40]))


def measure(quick: bool) -> Table:
    """Analyse rules of each size, compare them with a lower limit, and suggest rules from sessions."""
    rows: list[Row] = []
    for size in (10,) if quick else SIZES:
        rules = rules_of(size)
        began = time.perf_counter()
        found = analyse(rules, seconds=SECONDS)
        rows.append(_row(f"analyse {size:,}", began, found.states, len(found.findings), len(found.undecided)))
        began = time.perf_counter()
        parted = compare(rules, rules_of(size, limit=400), seconds=SECONDS)
        count = sum(trace is not None for trace in (parted.stricter, parted.looser))
        rows.append(_row(f"diff of one line in {size:,}", began, parted.states, count, len(parted.undecided)))
    for calls in (200,) if quick else (10_000,):
        sessions = sessions_of(calls)
        began = time.perf_counter()
        mined = mine(sessions)
        rows.append(_row(f"mine {calls:,} calls", began, 0, len(mined.suggestions), 0))
    return Table(
        name="analyse",
        title="Knowing rules before they run",
        columns=("case", "who", "seconds", "states", "found", "undecided", "MiB"),
        rows=rows,
        notes=f"At most {SECONDS:g} s each. MiB is the most that the process has used so far.",
    )


def _row(case: str, began: float, states: int, found: int, undecided: int) -> Row:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return case, "openbox_agentrt", time.perf_counter() - began, states, found, undecided, most
