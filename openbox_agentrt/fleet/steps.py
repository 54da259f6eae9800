"""
The steps of the protocol. Each is atomic, and safe to repeat.

States of a lease: r reserved, s started, c committed, f failed, g given back, u unknown.
    reserve -> r, or s at once; nothing where it is dry
    start    r -> s, while its worker lives
    commit   r s u -> c
    fail     r s u -> f
    lose     r s   -> u
    undo     r s u -> g
    settle   of a dead worker: r -> g, s -> u
c and f are final. commit, fail and lose of g are "late": it ran on what was given back, so it counts
by force.

A session's memory is held by one worker at a time, as long as that lives, and written by nobody else.

A worker's id is its fencing token. Only a `Beat` that joins makes a worker, and an id whose lease is over is
dead for good. A lease that waits for a person belongs to a worker of its own, which lives until the deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from .answers import BrokenGuard, How, Measured
from .wire import WireGuard, WirePlan

LeaseState = Literal["", "r", "s", "c", "f", "g", "u"]
Said = Literal["ok", "no", "dead", "gone", "stale", "edges", "lost", "again", "late", "alive", "open", "busy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfWorker:
    """Say which worker takes a step, and the highest count of its steps that the store has told it."""

    worker: str
    acked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(_OfWorker):
    """
    Renew a worker's lease; `join` makes the worker, `leave` ends it if nothing of it is open.

    `lost` says that the store has lost data that this worker knows of.
    """

    lease_us: int
    join: bool = False
    leave: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve(_OfWorker):
    """
    Judge a plan and make its moves. By `by`, in the store's time, nobody waits for it any more.

    With `dry` nothing is moved, and there is no lease.
    """

    lease: str
    plan: WirePlan
    guards: tuple[WireGuard, ...]
    by: int | None = None
    started: bool = False
    force: bool = False
    dry: bool = False
    generation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(_OfWorker):
    """Say that the call begins now."""

    lease: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(_OfWorker):
    """Settle a lease over these cells. `person`: somebody who knows says that its worker is dead."""

    lease: str
    how: How | Literal["settle"]
    cells: tuple[str, ...]
    measured: Measured | None = None
    person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Park(_OfWorker):
    """Give a reserved lease a deadline of its own, in microseconds from now, and a note for who takes it."""

    lease: str
    for_us: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(_OfWorker):
    """Take a parked lease, for a worker that lives. After `by`, in the store's time, nobody waits for it."""

    lease: str
    by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend(_OfWorker):
    """Set a cell's times that are ahead of the store's clock to now, and forget that an amount is missing."""

    cell: str
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(_OfWorker):
    """
    Take a session for a worker that lives, unless another one that lives has it. None waits after `by`.

    `birth` and `version` say which memory of it the worker knows: that is not sent again. One that the store
    does not know at all goes on under the same `birth`. The worker was told that another one has it until
    `busy_until`: then a store that knows nothing of it has lost it.

    A store that has lost data may have lost who has it. For `lease_us` since then nobody takes a session that
    the store does not know: whoever has it hears of the loss by then, or is dead.
    """

    session: str
    idle_us: int
    lease_us: int = 0
    birth: str = ""
    version: int = -1
    busy_until: int = 0
    by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(_OfWorker):
    """
    Write what has changed in the memory of a session since `base`, and call that `version`.

    Attributes:
        changed: Pieces of the memory by name, and
        dropped: names of those that are no more.
        whole: Whether it is all there is, in place of everything that is kept.
        release: Whether the worker lets go of the session.
        end: Whether the session is over: it is forgotten, and whoever holds it next begins anew.
    """

    session: str
    idle_us: int
    birth: str
    base: int
    version: int
    changed: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    whole: bool = False
    release: bool = False
    end: bool = False


Step = Beat | Reserve | Start | Finish | Park | Adopt | Mend | Hold | Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStand:
    """
    Carry what is kept of a session: its pieces, unless whoever asked knows that version of that birth.

    `writer` has written that version.
    """

    birth: str
    version: int
    writer: str = ""
    pieces: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """
    Carry the answer to one step.

    Attributes:
        said: The outcome.
        now: The store's time in microseconds.
        generation: What the store's data is called; another name means that some was lost.
        ops: Steps of the worker that changed something.
        broken: Guards that do not hold.
        state: What the lease is now.
        dead: Workers whose lease is over.
        over: Moves whose limit was broken by what was measured.
        plan: What an adopted lease holds.
        note: What it was parked with.
        session: What is kept of a session that was held.
        until: When the lease of the worker that holds it is over, if another one does.
    """

    said: Said
    now: int
    generation: str
    ops: int = 0
    broken: tuple[BrokenGuard, ...] = ()
    state: LeaseState = ""
    dead: tuple[str, ...] = ()
    over: tuple[int, ...] = ()
    plan: WirePlan | None = field(default=None)
    note: str = ""
    session: SessionStand | None = None
    until: int = 0


class NoAnswerError(Exception):
    """
    The store gave no answer. Nobody knows whether the steps were taken; repeating them is safe.

    Attributes:
        slow: Whether it was waited for until the end of the time that there is.
    """

    def __init__(self, reason: str, *, slow: bool = False) -> None:
        super().__init__(reason)
        self.slow = slow


class StoreLine(Protocol):
    """
    One connection to a store, for one thread. It is made at first use, and again after `NoAnswerError`.
    """

    def run(self, steps: Sequence[Step]) -> list[StepAnswer]:
        """Take steps in this order, in one trip."""
        ...

    def open_leases(self, worker: str) -> dict[str, WirePlan]:
        """List what a worker has not finished."""
        ...

    def tell(self, names: dict[str, bytes]) -> None:
        """Keep what cells are about, for people who look."""
        ...

    def sweep(self, seconds: float) -> bool:
        """
        Forget what is over, where the store does not do so by itself, for about so long.

        Returns whether there is more.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


def parked(lease: str) -> str:
    """Name the worker to which a lease belongs while a person is asked."""
    return f"parked-{lease}"
