"""
A call asks a shared store in plain data: cells, guards that have to hold, and moves.

A store knows no contracts. Whoever asks it has read the call's keys and amounts already; a guard that cannot
be evaluated is decided before, and never gets here. Guards and moves name cells by their position in the
plan. Amounts are whole units: a decimal times ten to the power of its cell's `scale`.
"""

from __future__ import annotations

from typing import Literal

from .._plain.calendar import Per
from .._values import dataclass

CellKind = Literal["tally", "stamps", "marks", "sum", "distinct", "tokens"]

GuardKind = Literal[
    "need",  # n calls that succeeded
    "ban",  # no call that has started
    "cap",  # fewer than n calls that have started
    "spend",  # the amount fits under n
    "distinct",  # no new value beyond the n-th
    "token",  # one unused prerequisite
]
MoveKind = Literal["count", "give", "take"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCell:
    """
    One number that many processes share.

    Attributes:
        kind: What it remembers: `tally` starts and successes, `stamps` starts in a window, `marks` successes
            in a window, `sum` amounts, `distinct` values, `tokens` unused prerequisites.
        name: What it is about, stable across processes and versions. Equal names are one cell.
        key: The value that splits it; empty for one that is not split.
        within: Microseconds of a sliding window.
        per: The calendar period after which it starts anew.
        tz: The time zone of the period.
        scale: Decimals that a unit of its amounts stands for. Cells of different scales are different cells.
    """

    kind: CellKind
    name: str
    key: str = ""
    within: int | None = None
    per: Per | None = None
    tz: str = "UTC"
    scale: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetGuard:
    """
    A comparison that has to hold for the call.

    Attributes:
        kind: Which comparison.
        cell: Position of its cell in the plan.
        n: The limit, in units for `spend`.
        amount: Units that the call spends; None where that is measured later: it passes while any is left.
        values: Values that the call uses; None where they are measured later.
        enforced: Whether it refuses. One that only watches is reported, and the call counts.
    """

    kind: GuardKind
    cell: int
    n: int = 1
    amount: int | None = None
    values: tuple[str, ...] | None = None
    enforced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMove:
    """
    A change that the call makes to a cell.

    Attributes:
        kind: `count` for all cells but `tokens`, which a call gives or takes.
        cell: Position of its cell in the plan.
        amount: Units, for a `sum` that is not deferred; an estimate is an amount.
        values: Values, for a `distinct` that is not deferred.
        deferred: Whether amount or values are measured after the call.
        limit: The lowest limit on the sum, to tell when what was measured breaks it.
        refund: Whether a call that ran and failed is taken back.
        once: Whether unused prerequisites do not add up.
    """

    kind: MoveKind = "count"
    cell: int
    amount: int | None = None
    values: tuple[str, ...] | None = None
    deferred: bool = False
    limit: int | None = None
    refund: bool = False
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """All that one call asks of the store, judged and changed in one step."""

    cells: tuple[FleetCell, ...]
    guards: tuple[FleetGuard, ...] = ()
    moves: tuple[FleetMove, ...] = ()
