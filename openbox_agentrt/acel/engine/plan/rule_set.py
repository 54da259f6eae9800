"""
Contracts, filed by the tools that they are about and compiled once.

A set knows nothing of any session, so any number of sessions share one: what a session adds is its memory,
piece by piece, as its tools are first called. Contracts are filed by the names that they name. Those that
only asking tells - patterns over names, functions, templates about every call - are in a list of their own
and are looked through once per tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Literal

from ...._primitives import ref
from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration, Home
from ...contracts.rules import Cell, Move
from ...match.selector import Selector
from ...wording import shown
from .outline import FiledContract, Outline

if TYPE_CHECKING:
    from ...contracts.custom import CustomGuard

MAX_OUTLINES = 4096
MAX_KEPT_NAME = 256
_MAX_SHARED = 64


class RuleSet:
    """
    Hold contracts, and say of each tool which are about it.

    Attributes:
        contracts: The contracts, in the order in which they were added.
        order: The position of each, by identity: a subclass may define equality.
        filed: Those that are declared, by identity.
        custom: The guards of those with code of their own.
        at_end: Those declared ones that require something of the end.
        fleet: Those whose memory is that of a shared store.
        alone: Whether there are none, since those with scope "fleet" count the calls of the session alone.
        default_scope: What scope those have that name none, where a session has several runs; None where it
            is one run, so that both are the same.
        keeps_times: Whether one has to know when state entries were written.
        tells_runs_apart: Whether one has memory of its own for each run of the session.

    Args:
        contracts: The contracts.
        alone: See the attribute.
        default_scope: See the attribute.
    """

    def __init__(
        self,
        contracts: Iterable[TemporalContract] = (),
        *,
        alone: bool = False,
        default_scope: Literal["run", "session"] | None = None,
    ) -> None:
        self.alone = alone
        self.default_scope = default_scope
        self.fleet: list[FiledContract] = []
        self.contracts: list[TemporalContract] = []
        self.order: dict[int, int] = {}
        self.filed: dict[int, FiledContract] = {}
        self.custom: list[CustomGuard] = []
        self.at_end: list[FiledContract] = []
        self.keeps_times = False
        self.tells_runs_apart = False
        self._by_name: dict[str, list[FiledContract]] = {}
        self._patterns: list[FiledContract] = []
        self._watched: dict[str, dict[Move, None]] = {}
        self._outlines: dict[str, Outline] = {}
        self._cells: frozenset[Cell] | None = None
        self._named_code: dict[tuple[str, int], Selector] = {}
        for contract in contracts:
            self.add(contract)

    def add(self, contract: TemporalContract) -> None:
        """
        Add a contract to the set.

        Raises:
            TypeError: It is no contract.
            ValueError: It was added before, or has the `name` of one of the fleet with other code.
        """
        if not isinstance(contract, TemporalContract):
            raise TypeError(f"a contract is needed, got {shown(contract)}")
        if id(contract) in self.order:
            raise ValueError(f"contract {contract.spec} was already added to this session")
        if isinstance(contract, Declaration):
            self._take_names(contract)
        self.order[id(contract)] = len(self.order)
        self.contracts.append(contract)
        self._outlines.clear()
        self._cells = None
        if isinstance(contract, Declaration):
            self._file(self._filed(contract))
        else:
            from ...contracts.custom import CustomGuard

            self.custom.append(CustomGuard(contract))

    def extended(self, contract: TemporalContract) -> RuleSet:
        """Make a set with one more contract. This one stays as it is."""
        from copy import copy

        more = RuleSet()
        for name in vars(more):
            setattr(more, name, copy(getattr(self, name)))
        more._by_name = {name: list(filed) for name, filed in self._by_name.items()}
        more._watched = {tool: dict(moves) for tool, moves in self._watched.items()}
        more.add(contract)
        return more

    def known_as(self) -> dict[Hashable, TemporalContract]:
        """File the contracts by what they say, and by which it is of those that say the same."""
        alike: Counter[Hashable] = Counter()
        filed: dict[Hashable, TemporalContract] = {}
        for contract in self.contracts:
            said = (type(contract), contract.spec, contract.id, contract.mode)
            filed[said, alike[said]] = contract
            alike[said] += 1
        return filed

    def cells(self) -> frozenset[Cell]:
        """Name every piece of memory that the declared contracts look at or change."""
        if self._cells is not None:
            return self._cells
        named: set[Cell | None] = set()
        for filed in self.filed.values():
            if filed.elsewhere:
                continue
            rules = [filed.rule(hits) for hits in filed.combinations()]
            guards = [*filed.at_end, *(guard for rule in rules for guard in rule.guards)]
            if filed.goal is not None:
                guards.append(filed.goal)
            named.update(cell for guard in guards for cell in (guard.cell, guard.other))
            named.update(move.cell for rule in rules for move in rule.moves)
            named.update(watch.move.cell for watch in filed.contract.watches)
        self._cells = frozenset(cell for cell in named if cell is not None)
        return self._cells

    def outline(self, tool: str) -> Outline:
        """Say which contracts are about a tool, whose name is in NFC."""
        outline = self._outlines.get(tool)
        if outline is None:
            filed = [*self._by_name.get(tool, ()), *self._patterns]
            ordered = sorted(filed, key=lambda entry: entry.index)
            outline = Outline(tool, ordered, self._watched.get(tool, ()))
            # Names come from a model, so there is no end to them. An outline can always be made again.
            if len(tool) <= MAX_KEPT_NAME:
                if len(self._outlines) >= MAX_OUTLINES:
                    self._outlines.clear()
                self._outlines[tool] = outline
        return outline

    def names_event(self, event: str) -> bool:
        """Tell whether a contract names an event, and not only a pattern that its name happens to fit."""
        return any(
            contract.names_event(event) for contract in self.contracts if isinstance(contract, Declaration)
        )

    def _take_names(self, contract: Declaration) -> None:
        """Refuse code that would count in the fleet under the name of other code."""
        named = contract.named_code
        for known, selector in named.items():
            other = self._named_code.get(known)
            if other is not None and other.identity != selector.identity:
                raise ValueError(
                    f"contract {contract.spec} counts {selector.label} as another one counts {other.label}: "
                    f"give each a name= of its own instead of {known[0]!r}"
                )
        self._named_code |= named

    def _filed(self, contract: Declaration) -> FiledContract:
        scope = contract.reach.scope or self.default_scope
        return FiledContract(
            contract,
            len(self.contracts),
            elsewhere=scope == "fleet" and not self.alone,
            of_run=scope == "run" and self.default_scope is not None,
        )

    def _file(self, filed: FiledContract) -> None:
        contract = filed.contract
        self.filed[id(contract)] = filed
        self.tells_runs_apart = self.tells_runs_apart or filed.of_run
        if filed.elsewhere:
            self.fleet.append(filed)
        if contract.at_end:
            self.at_end.append(filed)
        self.keeps_times = self.keeps_times or contract.keeps_times
        for watch in contract.watches:
            self._watched.setdefault(watch.tool, {})[watch.move] = None
        if contract.names is None:
            self._patterns.append(filed)
        else:
            for name in contract.names:
                self._by_name.setdefault(name, []).append(filed)


class SharedRules(RuleSet):
    """
    Hold contracts that many sessions share.

    A contract of it tells how it stands in the session that was opened last.
    """

    def __init__(
        self,
        contracts: Iterable[TemporalContract],
        *,
        alone: bool = False,
        default_scope: Literal["run", "session"] | None = None,
    ) -> None:
        super().__init__(contracts, alone=alone, default_scope=default_scope)
        self._latest: ref[Home] | None = None
        for filed in self.filed.values():
            filed.contract.settle_in(self._home)

    def opened(self, home: Home) -> None:
        """Take note of a session that was opened with these contracts."""
        self._latest = ref(home)

    def _home(self) -> Home | None:
        return None if self._latest is None else self._latest()


_shared: dict[Hashable, tuple[tuple[TemporalContract, ...], SharedRules]] = {}


def shared_rules(
    contracts: tuple[TemporalContract, ...],
    *,
    alone: bool = False,
    default_scope: Literal["run", "session"] | None = None,
) -> SharedRules:
    """
    Compile a tuple of contracts, or find what was compiled of this very tuple.

    Args:
        contracts: The contracts.
        alone: See `RuleSet`.
        default_scope: See `RuleSet`.

    Raises:
        TypeError: It holds something that is no contract.
        ValueError: It holds a contract twice.
    """
    name = (id(contracts), alone, default_scope)
    known = _shared.get(name)
    # The tuple is kept with its rules, so no other object can have its identity.
    if known is not None and known[0] is contracts:
        return known[1]
    rules = SharedRules(contracts, alone=alone, default_scope=default_scope)
    if len(_shared) >= _MAX_SHARED:
        _shared.pop(next(iter(_shared)), None)
    _shared[name] = (contracts, rules)
    return rules
