"""Bind the rules of a contract, which many sessions share, to the memory of one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._values import dataclass, field
from ...contracts.declaration import Declaration
from ...contracts.rules import Guard, Rule
from ...memory.cell import Mover
from ...memory.guard import CellGuard, LiveGuard
from ...memory.session_memory import SessionMemory
from .outline import FiledContract, Hits

if TYPE_CHECKING:
    from ...memory.condition import LiveCondition


@dataclass(slots=True, kw_only=True)
class LiveRule:
    """Hold a contract's rule for one combination of roles, bound to memory."""

    guards: list[LiveGuard] = field(default_factory=list)
    movers: list[Mover] = field(default_factory=list)


class BoundContract:
    """
    Bind the rules of a contract to the memory of a session, each when it is first needed.

    Attributes:
        contract: The contract.
        since: The step after which it was added.
    """

    __slots__ = ("_at_end", "_filed", "_memory", "_rules", "_unasked", "_when", "contract", "since")

    def __init__(self, filed: FiledContract, memory: SessionMemory, since: int) -> None:
        self.contract: Declaration = filed.contract
        self.since = since
        self._filed = filed
        self._memory = memory
        self._rules: dict[Hits, LiveRule] = {}
        self._unasked: dict[Hits, LiveRule] = {}
        self._at_end: list[CellGuard] | None = None
        self._when: LiveCondition | None = None

    @property
    def when(self) -> LiveCondition | None:
        """Bind the condition that says when the contract is asked, if it has one."""
        if self._when is None and self.contract.when is not None:
            self._when = self._memory.condition(self.contract.when)
        return self._when

    def rule(self, hits: Hits) -> LiveRule:
        """Bind the rule for a call that matches the roles for which `hits` is true."""
        live = self._rules.get(hits)
        if live is None:
            live = self._rules[hits] = self._bind(self._filed.rule(hits))
        return live

    def unasked_rule(self, hits: Hits) -> LiveRule:
        """Bind the rule for such a call for which the contract is not asked."""
        live = self._unasked.get(hits)
        if live is None:
            live = self._unasked[hits] = self._bind(self._filed.unasked_rule(hits))
        return live

    def every_rule(self) -> list[LiveRule]:
        """Bind the rules for every combination of roles."""
        return [self.rule(hits) for hits in self._filed.combinations()]

    def guard(self, guard: Guard) -> LiveGuard:
        """Bind a guard of the contract."""
        return self._memory.guard(self.contract, guard, self.since)

    @property
    def goal(self) -> Guard | None:
        """Give the guard that makes the contract hold for good in this session, if any does."""
        return self._filed.goal

    def at_end(self) -> list[CellGuard]:
        """Bind what has to hold at the end."""
        if self._at_end is None:
            guards = [self.guard(guard) for guard in self._filed.at_end]
            self._at_end = [guard for guard in guards if isinstance(guard, CellGuard)]
        return self._at_end

    def watched(self) -> list[Mover]:
        """Bind what its conditions read of other calls."""
        return [self._memory.watcher(watch.move) for watch in self.contract.watches]

    def _bind(self, rule: Rule) -> LiveRule:
        memory = self._memory
        live = LiveRule(guards=[self.guard(guard) for guard in rule.guards])
        for move in rule.moves:
            live.movers.append(memory.mover(move, self.since))
            room = memory.room(self.contract, move, self.since)
            if room is not None:
                live.guards.append(room)
        return live
