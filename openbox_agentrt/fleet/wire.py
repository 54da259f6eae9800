"""
A plan as it is sent to a store and kept with its lease: short names, periods as instants.

The same JSON is read by the judge in Python and by the one in Lua. Whole numbers are exact in both, since
they stay below 2^53.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from .._plain.calendar import Per
from .._plain.digest import text_digest
from .periods import edges_around
from .plan import CellKind, FleetCell, FleetGuard, FleetMove, FleetPlan, GuardKind, MoveKind

BUCKETS = 100
"""In so many pieces a window is kept: memory and time of a step do not grow with its calls."""

LONGEST_KEY = 256

_ENCODE = msgspec.json.Encoder().encode


class WireCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """Write a cell so: `id` hash and key, `k` kind, `w` window, `b` bucket, `p` edges of periods."""

    id: str
    k: CellKind
    w: int | None = None
    b: int | None = None
    p: tuple[int, ...] | None = None


class WireGuard(msgspec.Struct, frozen=True, omit_defaults=True):
    """Write a guard so: `k` kind, `c` cell, `n` limit, `a` amount, `v` values, `e` whether it refuses."""

    k: GuardKind
    c: int
    n: int
    a: int | None = None
    v: tuple[str, ...] | None = None
    e: bool = False


class WireMove(msgspec.Struct, frozen=True, omit_defaults=True):
    """Write a move so: `k` kind, `c` cell, `a` amount, `v` values, `d` deferred, `n` limit, refund, once."""

    k: MoveKind
    c: int
    a: int | None = None
    v: tuple[str, ...] | None = None
    d: bool = False
    n: int | None = None
    r: bool = False
    o: bool = False


class WirePlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a plan that is kept with its lease: `c` cells and `m` moves."""

    c: tuple[WireCell, ...]
    m: tuple[WireMove, ...] = ()


class CellDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describe a cell for people, once per name, with the lowest limit that was asked for."""

    name: str
    kind: CellKind
    scale: int = 0
    within: int | None = None
    per: Per | None = None
    tz: str = "UTC"
    limit: int | None = None


@lru_cache(4096)
def _hash(name: str, scale: int) -> str:
    text = f"{name}~{scale}" if scale else name
    return text_digest(text)[:16]


def cell_id(cell: FleetCell) -> str:
    """Name a cell in the store: sixteen digits for what it is about, and its key."""
    return f"{_hash(cell.name, cell.scale)}:{_bounded(cell.key)}"


def wire(plan: FleetPlan, now: int) -> tuple[WirePlan, tuple[WireGuard, ...]]:
    """Write a plan for a store, with the edges of the periods around `now`, the store's time."""
    cells = tuple(
        WireCell(
            cell_id(cell),
            cell.kind,
            cell.within,
            None if cell.within is None else -(-cell.within // BUCKETS),
            None if cell.per is None else edges_around(cell.per, cell.tz, now),
        )
        for cell in plan.cells
    )
    return WirePlan(cells, tuple(map(_move, plan.moves))), tuple(map(_guard, plan.guards))


def about(plan: FleetPlan) -> dict[str, CellDescription]:
    """Say what each cell of a plan is about, by the digits of its name."""
    told = {}
    for position, cell in enumerate(plan.cells):
        limits = [guard.n for guard in plan.guards if guard.cell == position and guard.kind != "need"]
        told[_hash(cell.name, cell.scale)] = CellDescription(
            name=cell.name,
            kind=cell.kind,
            scale=cell.scale,
            within=cell.within,
            per=cell.per,
            tz=cell.tz,
            limit=min(limits, default=None),
        )
    return told


def encoded(value: object) -> bytes:
    """Write a value of the protocol as JSON."""
    return _ENCODE(value)


def _move(move: FleetMove) -> WireMove:
    values = None if move.values is None else tuple(map(_bounded, dict.fromkeys(move.values)))
    return WireMove(
        move.kind, move.cell, move.amount, values, move.deferred, move.limit, move.refund, move.once
    )


def _guard(guard: FleetGuard) -> WireGuard:
    values = None if guard.values is None else tuple(map(_bounded, dict.fromkeys(guard.values)))
    return WireGuard(guard.kind, guard.cell, guard.n, guard.amount, values, guard.enforced)


def _bounded(key: str) -> str:
    # A key is memory in the store, and somebody else chose it.
    if len(key) <= LONGEST_KEY and key.isascii():
        return key
    data = key.encode("utf-8", "backslashreplace")
    if len(data) <= LONGEST_KEY:
        return data.decode()
    return f"{key[:32].encode('utf-8', 'backslashreplace').decode()}#{hashlib.sha256(data).hexdigest()}"
