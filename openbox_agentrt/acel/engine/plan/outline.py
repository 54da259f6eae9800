"""Compile what contracts say of one tool, once for all sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ...._values import dataclass
from ...contracts.declaration import Declaration
from ...contracts.rules import Cell, Guard, Move, Rule
from ...match.keys import of_run
from ...match.selector import Hit

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


@dataclass(frozen=True, slots=True)
class TallyRules:
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


def _cell_of_run(cell: Cell) -> Cell:
    from dataclasses import replace

    return replace(cell, key=of_run(cell.key))
