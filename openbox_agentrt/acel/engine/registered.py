"""
Which contracts concern which tool.

Contracts are filed by the names that they name. Those that only asking tells - patterns over names,
functions, templates about every call - are in a list of their own, and are looked through once per
tool: what was found is kept as the tool's plan.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ..contracts.base import UNKNOWN_TOOL, TemporalContract
from ..contracts.custom import CustomGuard
from ..contracts.declaration import Declaration
from ..contracts.rules import Guard
from ..contracts.tools import ToolSpec
from ..match.names import canonical
from ..memory.clock import Clock, steady_clock
from ..memory.guard import CellGuard, LiveGuard, Never
from ..memory.session_memory import SessionMemory
from ..memory.state import StateStore
from .plan import BoundContract, Plan

MAX_PLANS = 4096
MAX_KEPT_NAME = 256


class Registered:
    """
    The contracts of a session.

    Attributes:
        contracts: The contracts, in the order in which they were added.
        bound: Those of them that are templates.
        memory: What they remember.
        plans: What is known about each tool that was called.
        step: Position of the latest call.
        lock: Held around every change.
    """

    def __init__(
        self, state: StateStore | None, clock: Clock | None, *, max_keys: int, known: Iterable[str] | None
    ) -> None:
        self.contracts: list[TemporalContract] = []
        self.bound: dict[int, BoundContract] = {}
        self.plans: dict[str, Plan] = {}
        self.step = 0
        self.memory = SessionMemory(
            StateStore() if state is None else state,
            steady_clock() if clock is None else clock,
            max_keys=max_keys,
        )
        self.lock = threading.Lock()
        self._known = None if known is None else {canonical(name) for name in known}
        # By identity: a subclass may define equality, and the very object is what is meant.
        self.order: dict[int, int] = {}
        self._by_name: dict[str, list[BoundContract]] = {}
        self._patterns: list[BoundContract] = []
        self._customs: list[CustomGuard] = []
        self._at_end: list[CellGuard | CustomGuard] = []
        self._specs: dict[str, ToolSpec] = {}

    def add(self, contract: TemporalContract) -> None:
        """Watch a contract from now on. What has happened so far does not count for it."""
        with self.lock:
            if id(contract) in self.order:
                raise ValueError(f"contract {contract.spec} was already added to this session")
            self.order[id(contract)] = len(self.order)
            self.contracts.append(contract)
            self.plans.clear()
            if not isinstance(contract, Declaration):
                self._customs.append(CustomGuard(contract))
                self._at_end.append(self._customs[-1])
                return
            bound = BoundContract(contract, len(self.contracts), self.memory, self.step)
            self.bound[id(contract)] = bound
            if contract.at_end:
                self._at_end += bound.at_end()
            if contract.keeps_times:
                self.memory.keep_times()
            if contract.names is None:
                self._patterns.append(bound)
            else:
                for name in contract.names:
                    self._by_name.setdefault(name, []).append(bound)

    def register(self, spec: ToolSpec) -> None:
        """Know a tool, and what is registered for it, in place of what was before."""
        with self.lock:
            name = canonical(spec.name)
            self._specs[name] = spec
            if self._known is not None:
                self._known.add(name)
            self.plans.clear()

    def plan(self, tool: str) -> Plan:
        """What has to be done for calls of a tool."""
        plan = self.plans.get(tool)
        if plan is not None:
            return plan
        with self.lock:
            plan = self._plan(canonical(tool))
            if len(tool) <= MAX_KEPT_NAME:
                # Names come from a model, so there is no end to them. A plan can always be made again.
                if len(self.plans) >= MAX_PLANS:
                    self.plans.clear()
                self.plans[tool] = plan
            return plan

    def _plan(self, tool: str) -> Plan:
        bound = [*self._by_name.get(tool, ()), *self._patterns]
        bound.sort(key=lambda entry: entry.index)
        guards: list[LiveGuard] = list(self._customs)
        if self._known is not None and tool not in self._known:
            roles = (role for entry in bound for role in entry.contract.roles)
            if not any(role.selector.knows(tool) for role in roles):
                guards.append(Never(UNKNOWN_TOOL, Guard(kind="never")))
        movers = [custom.mover for custom in self._customs]
        return Plan(tool, bound, guards, movers, self._specs.get(tool))
