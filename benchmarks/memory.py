"""What a session holds in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from . import peers
from .held import held_by
from .tables import Row, Table


def measure(quick: bool) -> Table:
    """Bytes of contracts, and of calls in a session."""
    contracts, calls = (100, 200) if quick else (10_000, 100_000)
    rows: list[Row] = []
    makers: dict[str, Callable[[int, int], Any]] = {
        "openbox_agentrt": peers.our_session,
        "acel-core": peers.acel_session,
    }
    for name, make in makers.items():
        make(10, 1)  # what is loaded for the first is not what contracts hold
        size = held_by(partial(make, contracts, 1))
        rows.append((f"{contracts:,} contracts", name, size / 1024, size / contracts))
    cases: dict[str, tuple[str, Callable[[], Any]]] = {
        "the whole trace": ("openbox_agentrt", lambda: _lived(peers.our_session(10, 3), calls)),
        "max_trace=1000": (
            "openbox_agentrt",
            lambda: _lived(peers.our_session(10, 3, max_trace=1000), calls),
        ),
        "its trace": ("acel-core", lambda: _acel_lived(calls)),
    }
    for case, (name, live) in cases.items():
        size = held_by(live)
        rows.append((f"{calls:,} calls, {case}", name, size / 1024, size / calls))
    return Table(
        name="memory",
        title="Memory",
        columns=("case", "who", "KiB", "bytes each"),
        rows=rows,
        notes="Counted by tracemalloc, after a full collection.",
    )


def _lived(session: Any, calls: int) -> Any:
    call = peers.our_call(session)
    for _ in range(calls):
        call()
    return session


def _acel_lived(calls: int) -> Any:
    session = peers.acel_session(10, 3)
    call = peers.acel_call(session)
    for _ in range(calls):
        call()
    return session
