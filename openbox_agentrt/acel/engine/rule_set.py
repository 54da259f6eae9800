"""
Contracts, filed by the tools that they are about and compiled once.

A set knows nothing of any session, so any number of sessions share one: what a session adds is its memory,
piece by piece, as its tools are first called. Contracts are filed by the names that they name. Those that
only asking tells - patterns over names, functions, templates about every call - are in a list of their own
and are looked through once per tool.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple, TypeAlias

from ..contracts.base import TemporalContract
from ..contracts.custom import CustomGuard
from ..contracts.declaration import Declaration, Home
from ..contracts.rules import Cell, Guard, Move, Rule
from ..match.keys import of_run
from ..match.selector import Hit, Selector
from ..wording import shown

MAX_OUTLINES = 4096
MAX_KEPT_NAME = 256
_MAX_SHARED = 64

Hits: TypeAlias = tuple[bool, ...]


class FiledContract:
    """
    Hold a declared contract with the rules that were compiled of it.

    Attributes:
        contract: The contract.
        index: Its position in its set.
        elsewhere: Whether its memory is that of a shared store, and so not of the session.
        of_run: Whether it has memory of its own for each run of the session.
    """

    __slots__ = ("_rules", "_unasked", "contract", "elsewhere", "index", "of_run")

    def __init__(
        self, contract: Declaration, index: int, *, elsewhere: bool = False, of_run: bool = False
    ) -> None:
        self.contract = contract
        self.index = index
        self.elsewhere = elsewhere
        self.of_run = of_run
        # Of many contracts no rule is ever asked for: their tools are not called.
        self._rules: dict[Hits, Rule] | None = None
        self._unasked: dict[Hits, Rule] | None = None

    def rule(self, hits: Hits) -> Rule:
        """Compile the rule for a call that matches the roles for which `hits` is true."""
        if self._rules is None:
            self._rules = {}
        rule = self._rules.get(hits)
        if rule is None:
            rule = self._rules[hits] = self._of_run(self.contract.rule_for(hits))
        return rule

    def unasked_rule(self, hits: Hits) -> Rule:
        """Compile the rule for such a call for which the contract is not asked."""
        if self._unasked is None:
            self._unasked = {}
        rule = self._unasked.get(hits)
        if rule is None:
            rule = self._unasked[hits] = self._of_run(self.contract.unasked_rule_for(hits))
        return rule

    @property
    def goal(self) -> Guard | None:
        """Give the guard that makes the contract hold for good in this session, if any does."""
        own = self.contract.goal
        return None if own is None or self.elsewhere or self.of_run else own

    @property
    def at_end(self) -> tuple[Guard, ...]:
        """Give the guards that have to hold when the session ends, or each of its runs."""
        return self._of_run(Rule(guards=self.contract.at_end)).guards

    def _of_run(self, rule: Rule) -> Rule:
        if not self.of_run:
            return rule
        from dataclasses import replace

        guards = [
            replace(
                guard,
                cell=guard.cell and _cell_of_run(guard.cell),
                other=guard.other and _cell_of_run(guard.other),
            )
            for guard in rule.guards
        ]
        moves = [replace(move, cell=_cell_of_run(move.cell)) for move in rule.moves]
        return Rule(guards=tuple(guards), moves=tuple(moves))

    def combinations(self) -> list[Hits]:
        """List the ways in which a call can match the roles, see `Declaration.combinations`."""
        return self.contract.combinations()


class TallyRules(NamedTuple):
    """
    Hold what contracts say of a tool where that is numbers of calls alone. All sessions share it.

    Attributes:
        cells: Where the numbers are. The rest names them by their places here.
        need: Those of which each needs a success.
        ban: Those in which no call must have started.
        caps: Those with a limit, each with the lowest one.
        counts: Those that the call moves.
    """

    cells: tuple[Cell, ...]
    need: tuple[int, ...]
    ban: tuple[int, ...]
    caps: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]


class Outline:
    """
    Say which contracts are about one tool.

    Attributes:
        decided: Contracts that the name decides on, with the roles that a call of the tool matches.
        asked: Contracts that look at arguments, with what is left to ask about each role.
        fleet: Contracts whose memory is that of a shared store, with what is left to ask about each role.
        named: Whether a contract names the tool, so that it is a known one.
        watched: The cells that its calls change because conditions read them.
        tallies: What all of them say, where that is numbers of calls alone; None where it is more.
    """

    __slots__ = ("asked", "decided", "fleet", "named", "tallies", "watched")

    def __init__(self, tool: str, filed: Iterable[FiledContract], watched: Iterable[Move] = ()) -> None:
        self.watched = tuple(watched)
        self.decided: list[tuple[FiledContract, Hits]] = []
        self.asked: list[tuple[FiledContract, tuple[Hit, ...]]] = []
        self.fleet: list[tuple[FiledContract, tuple[Hit, ...]]] = []
        self.named = bool(self.watched)
        for entry in filed:
            roles = entry.contract.roles
            hits = tuple(role.selector.on(tool, strict=role.strict) for role in roles)
            self.named = self.named or any(role.selector.knows(tool) for role in roles)
            decided = tuple(hit for hit in hits if isinstance(hit, bool))
            about = any(decided) or entry.contract.everywhere
            if entry.elsewhere:
                if hits != (False,) * len(hits):
                    self.fleet.append((entry, hits))
            elif len(decided) < len(hits) or (about and entry.contract.is_asked_when):
                self.asked.append((entry, hits))
            elif about:
                self.decided.append((entry, decided))
        is_more = self.asked or self.fleet or self.watched
        self.tallies = None if is_more else _tally_rules([entry.rule(hits) for entry, hits in self.decided])


def _tally_rules(rules: Iterable[Rule]) -> TallyRules | None:
    asked: dict[str, dict[Cell, int]] = {"need": {}, "ban": {}, "cap": {}}
    counts: dict[Cell, None] = {}
    for rule in rules:
        for guard in rule.guards:
            cells = asked.get(guard.kind)
            if cells is None or guard.cell is None or not guard.cell.is_tally:
                return None
            if guard.kind == "need" and guard.n != 1:
                return None
            cells[guard.cell] = min(int(guard.n), cells.get(guard.cell, int(guard.n)))
        for move in rule.moves:
            if move.role != "count" or not move.cell.is_tally:
                return None
            counts[move.cell] = None
    need, ban, caps = asked.values()
    place = {cell: number for number, cell in enumerate(dict.fromkeys((*need, *ban, *caps, *counts)))}
    return TallyRules(
        cells=tuple(place),
        need=tuple(place[cell] for cell in need),
        ban=tuple(place[cell] for cell in ban),
        caps=tuple((place[cell], most) for cell, most in caps.items()),
        counts=tuple(place[cell] for cell in counts),
    )


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
            self.custom.append(CustomGuard(contract))

    def extended(self, contract: TemporalContract) -> RuleSet:
        """Make a set with one more contract. This one stays as it is."""
        more = RuleSet(alone=self.alone, default_scope=self.default_scope)
        more.fleet = list(self.fleet)
        more.contracts = list(self.contracts)
        more.order = dict(self.order)
        more.filed = dict(self.filed)
        more.custom = list(self.custom)
        more.at_end = list(self.at_end)
        more.keeps_times = self.keeps_times
        more.tells_runs_apart = self.tells_runs_apart
        more._by_name = {name: list(filed) for name, filed in self._by_name.items()}
        more._patterns = list(self._patterns)
        more._named_code = dict(self._named_code)
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
        self._latest: weakref.ref[Home] | None = None
        for filed in self.filed.values():
            filed.contract.settle_in(self._home)

    def opened(self, home: Home) -> None:
        """Take note of a session that was opened with these contracts."""
        self._latest = weakref.ref(home)

    def _home(self) -> Home | None:
        return None if self._latest is None else self._latest()


def _cell_of_run(cell: Cell) -> Cell:
    from dataclasses import replace

    return replace(cell, key=of_run(cell.key))


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
