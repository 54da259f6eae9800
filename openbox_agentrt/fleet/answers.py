"""A shared store answers with reservations, what they would break, and how they ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

How = Literal["commit", "fail", "undo", "lose"]
"""`commit`: it ran and succeeded. `fail`: it ran and failed. `undo`: it never ran. `lose`: nobody knows."""

Measured = Mapping[int, int | tuple[str, ...]]
"""What was known only after the call: units or values, by the position of the move in the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """
    A reservation in the shared store. It ends by `finish`, or when its worker is dead.

    Attributes:
        id: Its name: the worker's id, a point, and a number.
        worker: The worker that reserved it.
        cells: Names of its cells in the store.
        local: Whether it was counted in this process only, since the store did not answer.
        process: The process that holds it. A fork has a copy of it, and not the call.
        note: What it was parked with, once it is adopted.
    """

    id: str
    worker: str
    cells: tuple[str, ...]
    local: bool = False
    process: int = field(default_factory=os.getpid, compare=False, repr=False)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenGuard:
    """
    A guard that does not hold, with the values of its cell.

    Attributes:
        guard: Position of the guard in the plan.
        live: Calls that started.
        done: Calls that succeeded.
        total: Units, starts in the window, or unused prerequisites.
        known: Values in use, of a `distinct`.
        unread: Whether an amount is missing that nobody measured.
        last: When the latest success was, in microseconds.
        free_at: When the call would be possible, in microseconds, if waiting helps.
        period_end: When the cell starts anew, in microseconds, if it has a period.
    """

    guard: int
    live: int = 0
    done: int = 0
    total: int = 0
    known: int | None = None
    unread: bool = False
    last: int | None = None
    free_at: int | None = None
    period_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """
    The answer to `reserve`.

    Attributes:
        lease: What was reserved; None if it was refused.
        broken: Guards that do not hold: all of them if it was refused, else those that only watch.
        now: The store's time in microseconds.
        generation: What the store's data is called; another name means that some was lost. Empty where the
            store was not asked.
    """

    lease: Lease | None
    broken: tuple[BrokenGuard, ...] = ()
    now: int = 0
    generation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """
    The answer to `finish`, which comes later.

    Attributes:
        said: `ok`; `again` if it was told before; `late` if it had been given back, so it counts by force;
            `no` if it had ended otherwise; `gone` if the store knows nothing of it.
        over: Positions of moves whose limit was broken by what was measured.
    """

    said: Literal["ok", "again", "late", "no", "gone"]
    over: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCounts:
    """
    Count what happened between a worker and the store since it was opened.

    Attributes:
        outages: Questions without an answer in time.
        local: Calls that were counted in this process only.
        doubtful: Reservations of which nobody knew whether the store had them; they were given back.
        late: Calls that ran although their reservation was given back. They count by force.
        lost: How often the store turned out to have lost data.
        repeated: Leases that were told again to a store that had lost data, or was away.
        renewed: How often the worker's lease was over, so that it went on under another name.
        clock_jumps: How often the store's clock jumped.
        settled: Leases of dead workers that this one settled.
        sessions_lost: Sessions with which another worker went on while this one had them, or had something
            to write in them.
    """

    outages: int = 0
    local: int = 0
    doubtful: int = 0
    late: int = 0
    lost: int = 0
    repeated: int = 0
    renewed: int = 0
    clock_jumps: int = 0
    settled: int = 0
    sessions_lost: int = 0
