"""
Rules with several windows, and what real sessions under them come to, with waits and calls of many lengths.

It knows nothing of what a search looks at: it makes calls and waits by chance, and notes what happened.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis import TraceRow
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.reservation import Reservation
from openbox_agentrt.acel.rulesfile import Rules, parse_rules
from openbox_agentrt.acel.session import engine_of

__all__ = ("Happened", "Visit", "ends_well_after", "random_windows", "rules_with", "sessions_of")

TOOLS = "abc"
WIDTHS = (7, 10, 15, 23, 60, 61, 121, 0.5, 30, 45)
MULTIPLES = (60, 120, 180)
TIMED = (
    *("rate_limit", "must_precede", "never_after", "cannot_follow_without", "response", "chain_precedence"),
    *("at_most_n_times", "at_most_total", "max_distinct", "alternate_precedence", "existence"),
)
PLAIN = ("never_after", "must_precede", "at_most_n_times", "required_before_session_end", "response")


@dataclass
class Happened:
    """
    Hold what sessions came to.

    Attributes:
        allowed: The tools of which a call was let through.
        alone: The contracts that refused a call, or were unmet at an end, where no other would do.
        broken: The contracts that were broken at all.
        met: The contracts that were unmet, and met later.
    """

    allowed: set[str] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)


def random_windows(random_: random.Random) -> tuple[float, ...]:
    """Choose two or three windows, of which most are no multiples of each other."""
    return MULTIPLES if random_.random() < 0.2 else tuple(random_.sample(WIDTHS, random_.choice([2, 2, 3])))


def rules_with(random_: random.Random, windows: Sequence[float]) -> Rules:
    """Make small rules over three tools."""
    count = random_.choice([2, 3, 3, 4])
    return parse_rules({"contracts": [_contract(random_, windows, f"c{n}") for n in range(count)]})


def _contract(random_: random.Random, windows: Sequence[float], name: str) -> dict[str, Any]:
    one, two = random_.sample(TOOLS, 2)
    n, window = random_.choice([1, 1, 2, 3]), random_.choice(windows)
    timed = random_.random() < 0.75
    template = random_.choice(TIMED if timed else PLAIN)
    first: Any = random_.choice([one, one, one, {"any_of": [one, two]}])
    args: dict[str, list[Any]] = {
        "rate_limit": [first, n, window],
        "at_most_n_times": [first, n],
        "at_most_total": [one, "n", n],
        "max_distinct": [one, "k", n],
        "cannot_follow_without": [two, one],
        "existence": [one, n],
        "required_before_session_end": [one],
    }
    said: dict[str, Any] = {"template": template, "args": args.get(template, [one, two]), "id": name}
    said |= {"within": window} if timed and template != "rate_limit" else {}
    keyed = template in ("rate_limit", "must_precede", "at_most_n_times", "never_after")
    said |= {"key": "k"} if keyed and random_.random() < 0.15 else {}
    said |= {"mode": "shadow"} if random_.random() < 0.07 else {}
    return said


class Visit:
    """Let things happen in one session."""

    def __init__(self, contracts: Sequence[TemporalContract]) -> None:
        self.now = 1000.0
        self.session = Session(
            contracts=contracts,
            halt_on_violation=False,
            clock=lambda: self.now,
            trace_window=0,
            max_trace=0,
            fleet="alone",
        )

    def call(
        self, tool: str, args: dict[str, Any], *, fails: bool = False, lasts: float = 0.0
    ) -> Reservation:
        call = self.session.reserve(tool, args)
        if call.allowed:
            self.now += lasts
            call.abort(ran=True) if fails else call.commit()
        return call

    def unmet(self) -> set[str]:
        return {str(breach.contract.id) for breach in engine_of(self.session).store.unmet()}


def _waits(windows: Sequence[float]) -> list[float]:
    """List sums and differences of windows, and a little more and less."""
    near = [0.25, 1.0, *windows, *(w / 2 for w in windows)]
    near += [a + sign * b for a, b in itertools.permutations(windows, 2) for sign in (1, -1)]
    near += [a + b - c for a, b, c in itertools.permutations(windows, 3)]
    return sorted({wait + more for wait in near for more in (-0.25, 0.0, 0.25) if wait + more > 0})


def sessions_of(rules: Rules, windows: Sequence[float], random_: random.Random, count: int) -> Happened:
    """Let so many sessions happen."""
    happened = Happened()
    enforced = {str(contract.id) for contract in rules.contracts if contract.mode == "enforce"}
    waits = _waits(windows)
    for _ in range(count):
        visit, was = Visit(rules.contracts), set[str]()
        near = random_.choice([waits, waits, random_.sample(waits, 2)])
        tools = random_.choice(["abc", "abc", "ab", "bc", "ac"])
        for _ in range(random_.choice([4, 7, 12, 20])):
            visit.now += random_.choice(near) if random_.random() < 0.55 else 0.0
            args = {"k": random_.choice("xyz"), "n": random_.choice([0.01, 1, 2, 3, 4])}
            tool = random_.choice(tools)
            lasts = random_.choice(near) if random_.random() < 0.2 else 0.0
            call = visit.call(tool, args, fails=random_.random() < 0.2, lasts=lasts)
            by = set() if call.refusal is None else {str(breach.id) for breach in call.refusal.broken}
            happened.allowed |= set() if by else {tool}
            happened.broken |= by | {str(breach.id) for breach in call.violations}
            unmet = visit.unmet()
            happened.met |= was - unmet
            was |= unmet
            happened.broken |= unmet
            for objecting in (by & enforced, unmet & enforced):
                happened.alone |= objecting if len(objecting) == 1 else set()
    return happened


def ends_well_after(
    rows: Iterable[TraceRow], rules: Rules, windows: Sequence[float], random_: random.Random
) -> bool:
    """Go on after a trace by chance, and tell whether everything that is enforced is ever met."""
    visit = Visit(rules.contracts)
    for row in rows:
        if row.kind == "call":
            visit.call(row.tool, dict(row.args or {}), fails=row.outcome == "failed", lasts=row.seconds)
        else:
            visit.now += row.seconds
    enforced = {str(contract.id) for contract in rules.contracts if contract.mode == "enforce"}
    for _ in range(random_.choice([1, 3, 6, 10])):
        visit.now += random_.choice(_waits(windows)) if random_.random() < 0.5 else 0.0
        visit.call(random_.choice(TOOLS), {"k": random_.choice("xyzw"), "n": 0.01})
        if visit.unmet().isdisjoint(enforced):
            return True
    return False
