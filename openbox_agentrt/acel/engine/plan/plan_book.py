"""The plans of one session: what has to be done for each tool that it has called."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...contracts.base import UNKNOWN_TOOL, TemporalContract
from ...contracts.rules import Guard
from ...match.names import normal_name
from ...memory.call import JudgedCall
from ...memory.cell import LiveCell
from ...memory.guard import CellGuard, LiveGuard, NeverHolds
from ...memory.session_memory import SessionMemory
from .bound_contract import BoundContract
from .outline import FiledContract
from .rule_set import MAX_KEPT_NAME, RuleSet, SharedRules
from .tool_plan import Plan

if TYPE_CHECKING:
    from ...._primitives import LockType
    from ...contracts.custom import CustomGuard
    from ...contracts.tools import ToolSpec
    from ...memory.condition import LiveCondition

MAX_PLANS = 4096

# One for all sessions, of which few add contracts on the way or register tools.
_NONE_SINCE: Mapping[int, int] = {}
_NO_SPECS: Mapping[str, ToolSpec] = {}


class PlanBook:
    """
    Keep the contracts of a session, bound to its memory as its tools are called.

    Args:
        lets_land: Whether a call that succeeded may be left to be counted, see `Landing`.

    Attributes:
        rules: The contracts. A set that is shared with other sessions is never changed.
        memory: What they remember.
        plans: What is known about each tool that was called.
        since: After which step a contract was added, by identity, for those added on the way.
    """

    __slots__ = (
        "_bound",
        "_known",
        "_lets_land",
        "_lock",
        "_owned",
        "_specs",
        "memory",
        "plans",
        "rules",
        "since",
    )

    def __init__(
        self,
        rules: RuleSet,
        memory: SessionMemory,
        lock: LockType,
        known: Iterable[str] | None,
        lets_land: bool,
    ) -> None:
        self.rules = rules
        self._owned = not isinstance(rules, SharedRules)
        self.memory = memory
        self.plans: dict[str, Plan] = {}
        self.since: Mapping[int, int] = _NONE_SINCE
        self._lock = lock
        self._lets_land = lets_land
        self._bound: dict[int, BoundContract] = {}
        self._known = None if known is None else {normal_name(name) for name in known}
        self._specs: Mapping[str, ToolSpec] = _NO_SPECS
        if self.rules.keeps_times:
            memory.keep_times()

    def add(self, contract: TemporalContract, step: int) -> None:
        """
        Watch a contract from a step on. What has happened so far does not count for it.

        The lock is held by the caller. What was planned before lets nothing through any more.
        """
        self._retire_plans()
        if self._owned:
            self.rules.add(contract)
        else:
            self.rules = self.rules.extended(contract)
            self._owned = True
        if step:
            self.since = {**self.since, id(contract): step}
        if self.rules.keeps_times:
            self.memory.keep_times()

    def replace(self, rules: RuleSet) -> None:
        """
        Put other contracts in place of all there are. Memory that both name is kept, the rest is forgotten.

        The lock is held by the caller. What was planned before lets nothing through any more.
        """
        self._retire_plans()
        self.rules = rules
        self._owned = not isinstance(rules, SharedRules)
        self.since = {key: step for key, step in self.since.items() if key in rules.order}
        self._bound.clear()
        self.memory.keep_only(rules.cells())
        if rules.keeps_times:
            self.memory.keep_times()

    def renew(self) -> None:
        """Bind the same contracts to new memory. The lock is held by the caller."""
        self._retire_plans()
        self._bound.clear()
        self.since = _NONE_SINCE
        self.memory.forget()

    def register(self, spec: ToolSpec) -> None:
        """Know a tool, and what is registered for it, in place of what was before; say what that drops."""
        with self._lock:
            name = normal_name(spec.name)
            before = self._specs.get(name)
            self._specs = {**self._specs, name: spec}
            if self._known is not None:
                self._known.add(name)
            self.plans.clear()
        dropped = () if before is None else _dropped(before, spec)
        if dropped:
            message = f"registering {name!r:.200} again drops its {' and '.join(dropped)}"
            warnings.warn(f"{message}: register all of it at once", stacklevel=3)

    def spec(self, tool: str) -> ToolSpec | None:
        """Give what is registered for a tool."""
        return self._specs.get(normal_name(tool))

    def names_event(self, event: str) -> bool:
        """Tell whether a contract names an event, or something is registered for it."""
        return event in self._specs or self.rules.names_event(event)

    def plan(self, tool: str) -> Plan:
        """Plan what has to be done for calls of a tool."""
        plan = self.plans.get(tool)
        if plan is not None:
            return plan
        with self._lock:
            # One that somebody else has made meanwhile is the one: only those that are kept are retired.
            plan = self.plans.get(tool)
            if plan is not None:
                return plan
            plan = self._plan(normal_name(tool))
            if len(tool) <= MAX_KEPT_NAME:
                # Names come from a model, so there is no end to them. A plan can always be made again.
                if len(self.plans) >= MAX_PLANS:
                    self.plans.clear()
                self.plans[tool] = plan
            return plan

    # The rest is called with the lock held.

    def bound(self, filed: FiledContract) -> BoundContract:
        """Bind a contract to memory, once."""
        key = id(filed.contract)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = BoundContract(filed, self.memory, self.since.get(key, 0))
        return bound

    def bound_to(self, contract: TemporalContract) -> BoundContract:
        """
        Find a declared contract of this session.

        Raises:
            KeyError: It is none.
        """
        return self.bound(self.rules.filed[id(contract)])

    def at_end(self) -> list[CellGuard | CustomGuard]:
        """List what has to hold when the session ends, in the order of the contracts."""
        guards: list[CellGuard | CustomGuard] = list(self.rules.custom)
        for filed in self.rules.at_end:
            guards += self._owed(self.bound(filed))
        order = self.rules.order
        return sorted(guards, key=lambda guard: order[id(guard.contract)])

    def at_end_of_run(self) -> list[CellGuard]:
        """List what has to hold when a run of the session ends."""
        filed = [filed for filed in self.rules.at_end if filed.of_run]
        return [guard for each in filed for guard in self._owed(self.bound(each))]

    def every_cell(self) -> list[tuple[str, LiveCell]]:
        """List every piece of memory that a declared contract can have, with its name."""
        for filed in self.rules.filed.values():
            if filed.elsewhere:
                continue
            bound = self.bound(filed)
            bound.every_rule()
            bound.at_end()
            bound.watched()
        return self.memory.cells()

    def _owed(self, bound: BoundContract) -> list[CellGuard]:
        asked = not bound.contract.asked_at_end or bound.when is None or _is_asked(bound.when)
        return bound.at_end() if asked else []

    def _retire_plans(self) -> None:
        for plan in self.plans.values():
            plan.retire()
        # At once: whoever finds a retired plan here asks for another, without end.
        self.plans.clear()

    def _plan(self, tool: str) -> Plan:
        outline = self.rules.outline(tool)
        plan = Plan(tool, self._specs.get(tool), self._lets_land)
        is_known = self._known is None or tool in self._known or outline.named
        if outline.tallies is not None and is_known and not (self.rules.custom or self.since):
            plan.count(outline.tallies, self.memory, outline.decided)
            return plan
        guards: list[LiveGuard] = list(self.rules.custom)
        if not is_known:
            guards.append(NeverHolds(UNKNOWN_TOOL, Guard(kind="never")))
        plan.bind(
            decided=[(self.bound(filed), hits) for filed, hits in outline.decided],
            asked=[(self.bound(filed), hits) for filed, hits in outline.asked],
            guards=guards,
            movers=[
                *(guard.mover for guard in self.rules.custom),
                *(self.memory.watcher(move) for move in outline.watched),
            ],
            fleet=outline.fleet,
        )
        return plan


def _is_asked(when: LiveCondition) -> bool:
    answer = when.ask(JudgedCall("", {}))
    # What cannot be evaluated is taken for true.
    return answer.holds or answer.fault is not None or answer.needs is not None


def _dropped(before: ToolSpec, after: ToolSpec) -> list[str]:
    kinds = {
        "preconditions": (before.preconditions, after.preconditions),
        "postconditions": (before.postconditions, after.postconditions),
        "commit": (before.commit, after.commit),
    }
    return [kind for kind, (had, has) in kinds.items() if had and not has]
