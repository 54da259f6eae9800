"""One session of a recording, as far as it was judged, and many of them without holding all in memory."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..acel.engine.plan.rule_set import SharedRules
from ..acel.engine.snapshot.snapshot import SnapshotError, cells_of, go_on, set_aside
from ..acel.reservation import Reservation
from ..acel.session import Session, engine_of
from .events import Began
from .spilled import Spilled

__all__ = ("JudgedSession", "JudgedSessions")

MOST_OPEN = 1_000
"""So many sessions are kept in memory; the others wait in a file."""


class _Silent:
    """Take evidence and keep none: what is found is counted elsewhere."""

    def record(self, violation: object, /) -> None:
        """Let a violation go by."""


@dataclass(slots=True, kw_only=True)
class JudgedSession:
    """
    Hold a session that judges recorded calls, and what is known of its recording.

    Attributes:
        name: Its name.
        now: The latest time.
        has_results: Whether every result that a contract learns from was recorded.
        has_prompts: Whether what the user said was recorded, and
        hides_prompts: without its text.
        is_resumed: Whether it went on with a memory that nobody knows here.
        runs: The runs that are not over.
        miscounted: Contracts that cannot have counted all that they count, by position.
        refused_by: Contracts that refused a call of it, by position.
        left: What its memory is known by, as long as nothing has happened since it was left.
        owing: Contracts by which something was owed at an end, by position.
        owed: What contracts would be owed if it ended now, by text and id; None where that was not asked yet.
        session: The session.
        flying: The calls that are under way.
    """

    name: str
    now: float = 0.0
    has_results: bool = True
    has_prompts: bool = False
    hides_prompts: bool = False
    is_resumed: bool = False
    runs: set[str] = field(default_factory=set)
    miscounted: frozenset[int] = frozenset()
    refused_by: frozenset[int] = frozenset()
    owing: frozenset[int] = frozenset()
    left: str | None = None
    owed: tuple[tuple[str, str | None], ...] | None = None
    session: Session = field(init=False)
    flying: dict[Began, Reservation] = field(default_factory=dict)

    def open(self, rules: SharedRules, state: Mapping[str, Any], **more: Any) -> None:
        """Make its session."""
        options: dict[str, Any] = {
            **more,
            "contracts": rules,
            "halt_on_violation": False,
            "evidence": _Silent(),
            "max_trace": 0,
            "trace_window": 0,
            "clock": lambda: self.now,
        }
        self.session = Session(state, session_id=self.name, **options)

    def to_bytes(self, *, owed: bool) -> bytes:
        """Write down what it is, with what it would be `owed` if it ended now. It is of no use afterwards."""
        known = set_aside(engine_of(self.session))
        if owed:
            self.owed = tuple((v.spec, v.id) for v in self.session.end_session())
        own = [getattr(self, name) for name in _WRITTEN]
        return pickle.dumps((own, known), protocol=pickle.HIGHEST_PROTOCOL)

    @classmethod
    def from_bytes(cls, data: bytes, rules: SharedRules, *, is_over: bool = False) -> JudgedSession:
        """Go on with what `to_bytes` wrote; without a session, if it is over and what is owed was asked."""
        own, known = pickle.loads(data)
        kept = cls(**dict(zip(_WRITTEN, own, strict=True)))
        if not is_over or kept.owed is None:
            kept.owed = None
            kept.open(rules, {})
            go_on(engine_of(kept.session), known)
        return kept


_WRITTEN = tuple(part.name for part in fields(JudgedSession) if part.name not in ("session", "flying"))


class JudgedSessions:
    """
    Keep any number of sessions: those that were in use last in memory, and the others in a file.

    Args:
        rules: The contracts of each.
        state: The state that each begins with.
        most: So many are kept in memory at most, those with calls under way aside.
    """

    def __init__(self, rules: SharedRules, state: Mapping[str, Any], *, most: int) -> None:
        self._rules = rules
        self._state = state
        self._most = self._full = most
        self._open: OrderedDict[str, JudgedSession] = OrderedDict()
        self._spilled: Spilled | None = None
        self._count = 0
        self._can_spill: bool | None = None
        # Where runs are told apart, what is owed depends on which of them are over.
        self._asks_owed = bool(rules.at_end) and not rules.tells_runs_apart

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> JudgedSession:
        kept = self._open.get(name)
        if kept is None:
            # Before, so that the one that is asked for is not among those that are put away.
            if len(self._open) >= self._full:
                self._spill()
            kept = self._open[name] = self._found(name)
        else:
            self._open.move_to_end(name)
        return kept

    def __iter__(self) -> Iterator[JudgedSession]:
        yield from list(self._open.values())
        for name, data in () if self._spilled is None else self._spilled:
            if name not in self._open:
                yield JudgedSession.from_bytes(data, self._rules, is_over=True)

    def go_on(self, old: str, new: str, mark: str) -> bool:
        """Go on with a session under a new name; tell whether it is there as it was left, with that mark."""
        if not self._is_known(old):
            return False
        kept = self[old]
        if kept.left != mark or kept.flying:
            return False
        self._count -= self._is_known(new)
        for name in (old, new):
            self._open.pop(name, None)
            if self._spilled is not None:
                self._spilled.drop(name)
        kept.name, self._open[new] = new, kept
        return True

    def _is_known(self, name: str) -> bool:
        return name in self._open or (self._spilled is not None and self._spilled.get(name) is not None)

    def _found(self, name: str) -> JudgedSession:
        data = None if self._spilled is None else self._spilled.get(name)
        if data is not None:
            return JudgedSession.from_bytes(data, self._rules)
        self._count += 1
        kept = JudgedSession(name=name)
        kept.open(self._rules, self._state)
        return kept

    def _spill(self) -> None:
        """Put half of the sessions into the file, those that were not used for longest."""
        half = self._most // 2
        idle = [name for name, kept in self._open.items() if not kept.flying]
        if self._can_spill is None:
            self._can_spill = _can_be_written(next(iter(self._open.values())))
        written = {
            name: self._open[name].to_bytes(owed=self._asks_owed) for name in idle[: half * self._can_spill]
        }
        if self._spilled is None:
            self._spilled = Spilled()
        self._spilled.put(written)
        for name in written:
            del self._open[name]
        # Those with calls under way stay, and are not looked at again for each that is added.
        self._full = self._most if len(self._open) < self._most else len(self._open) + max(half, 1)


def _can_be_written(kept: JudgedSession) -> bool:
    try:
        cells_of(engine_of(kept.session).store)
    except SnapshotError:
        # What contracts remember that have code of their own is theirs, so sessions stay in memory.
        return False
    return True
