"""
What has to be done for a call of one tool.

A plan is made when a tool is first called and kept. It holds the guards and moves of the contracts
about this tool and of no others, so the number of other contracts does not matter. Comparisons of
plain tallies, by far the most frequent, are laid out as tuples of tallies that the store compares
itself; of several limits on one memory only the lowest is asked, since where it holds all do.

Contracts whose matchers look at arguments are asked per call, before any lock is taken.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contracts.declaration import Declaration
from ..contracts.rules import Guard
from ..contracts.tools import ToolSpec
from ..match.matchers import Args, Predicate
from ..match.selector import Hit, ask
from ..memory.cell import Mover
from ..memory.clock import MonotoneClock
from ..memory.distinct import Differ
from ..memory.guard import CellGuard, LiveGuard
from ..memory.session_memory import SessionMemory
from ..memory.tally import Ban, Cap, Need, Tally
from ..memory.total import Spend
from ..memory.window import Stamps, WindowCap


@dataclass(slots=True, kw_only=True)
class LiveRule:
    """A contract's rule for one combination of roles, bound to memory."""

    guards: list[LiveGuard] = field(default_factory=list)
    # The movers of prerequisites; the others are strict.
    lenient: list[Mover] = field(default_factory=list)
    strict: list[Mover] = field(default_factory=list)


class BoundContract:
    """
    A contract in a session: its rules, bound when they are first needed.

    Attributes:
        contract: The contract.
        index: Its position among the contracts of the session.
        since: The step after which it was added.
    """

    __slots__ = ("_memory", "_rules", "contract", "index", "since")

    def __init__(self, contract: Declaration, index: int, memory: SessionMemory, since: int) -> None:
        self.contract = contract
        self.index = index
        self.since = since
        self._memory = memory
        self._rules: dict[tuple[bool, ...], LiveRule] = {}

    def rule(self, hits: tuple[bool, ...]) -> LiveRule:
        """The rule for a call that matches the roles for which `hits` is true."""
        live = self._rules.get(hits)
        if live is None:
            live = self._rules[hits] = self._bind(hits)
        return live

    def every_rule(self) -> list[LiveRule]:
        """The rules for every combination."""
        combinations: list[tuple[bool, ...]] = [()]
        for _ in self.contract.roles:
            combinations = [(*hits, hit) for hits in combinations for hit in (False, True)]
        return [self.rule(hits) for hits in combinations]

    def guard(self, guard: Guard) -> LiveGuard:
        """A guard of the contract, bound to memory."""
        return self._memory.guard(self.contract, guard, self.since)

    def at_end(self) -> list[CellGuard]:
        """What has to hold at the end, bound to memory."""
        guards = [self.guard(guard) for guard in self.contract.at_end]
        return [guard for guard in guards if isinstance(guard, CellGuard)]

    def _bind(self, hits: tuple[bool, ...]) -> LiveRule:
        rule, memory, live = self.contract.rule(hits), self._memory, LiveRule()
        live.guards += [self.guard(guard) for guard in rule.guards]
        for move in rule.moves:
            (live.strict if move.strict else live.lenient).append(memory.mover(move, self.since))
            room = memory.room(self.contract, move, self.since)
            if room is not None:
                live.guards.append(room)
        return live


@dataclass(slots=True, kw_only=True)
class ArgumentRules:
    """What the contracts that look at arguments say about one call."""

    guards: list[LiveGuard] = field(default_factory=list)
    counts: list[Tally] = field(default_factory=list)
    movers: list[Mover] = field(default_factory=list)
    lenient: set[Hashable] = field(default_factory=set)
    faults: dict[int, str] = field(default_factory=dict)


class Plan:
    """
    Everything that a call of one tool needs.

    Attributes:
        tool: Name of the tool, in NFC.
        spec: What is registered for the tool itself.
        need: Tallies of which each needs a success.
        ban: Tallies that must not have started.
        caps: Tallies, each with the lowest of its limits.
        checks: Further guards that are asked.
        guards: Every guard, asked when a call is explained.
        counts: Tallies that the call moves.
        movers: What else the call moves.
        asked: Contracts that look at arguments, each with what is left to ask.
        timelines: Clocks that judging needs.
        later: Clocks that settling needs.
    """

    __slots__ = (
        "_moved",
        "asked",
        "ban",
        "caps",
        "checks",
        "counts",
        "guards",
        "later",
        "movers",
        "need",
        "spec",
        "timelines",
        "tool",
    )

    def __init__(
        self,
        tool: str,
        bound: Sequence[BoundContract],
        guards: Sequence[LiveGuard],
        movers: Sequence[Mover],
        spec: ToolSpec | None,
    ) -> None:
        """`guards` and `movers` are those that come from no bound contract."""
        self.tool = tool
        self.spec = spec
        self.asked: list[tuple[BoundContract, tuple[Hit, ...]]] = []
        guards = list(guards)
        movers = list(movers)
        for entry in bound:
            hits = tuple(role.selector.on(tool) for role in entry.contract.roles)
            if not all(isinstance(hit, bool) for hit in hits):
                self.asked.append((entry, hits))
            elif any(hits) or entry.contract.everywhere:
                rule = entry.rule(tuple(map(bool, hits)))
                guards += rule.guards
                movers += rule.lenient + rule.strict
        self.guards = tuple(guards)
        tallies, others = split(movers)
        self.counts = tuple(tallies)
        self.movers = tuple(others)
        self._moved = frozenset(map(identity, others))
        self._lay_out(guards)
        self._find_clocks()

    def ask(self, args: Args) -> ArgumentRules:
        """What the contracts that look at arguments say."""
        extra = ArgumentRules()
        answers: dict[Any, bool | str] = {}
        movers: list[Mover] = []
        for entry, hits in self.asked:
            roles = entry.contract.roles
            settled = []
            for role, hit in zip(roles, hits, strict=True):
                if isinstance(hit, bool):
                    settled.append(hit)
                    continue
                answer = _answer(answers, role.selector.identity, hit, args)
                if isinstance(answer, str):
                    extra.faults[id(entry.contract)] = answer
                    answer = role.strict
                settled.append(answer)
            if any(settled) or entry.contract.everywhere:
                rule = entry.rule(tuple(settled))
                extra.guards += rule.guards
                movers += rule.lenient + rule.strict
                extra.lenient.update(map(identity, rule.lenient))
        # What is moved anyway is not moved twice.
        tallies, others = split(movers)
        extra.counts = [tally for tally in tallies if tally not in self.counts]
        extra.movers = [mover for mover in others if identity(mover) not in self._moved]
        return extra

    def _lay_out(self, guards: list[LiveGuard]) -> None:
        need: dict[Tally, None] = {}
        ban: dict[Tally, None] = {}
        caps: dict[Tally, int] = {}
        checks: dict[Any, LiveGuard] = {}
        for guard in guards:
            cell = guard.cell if isinstance(guard, CellGuard) else None
            n = guard.guard.n
            if type(cell) is Tally and type(guard) is Need and n == 1:
                need[cell] = None
            elif type(cell) is Tally and type(guard) is Ban:
                ban[cell] = None
            elif type(cell) is Tally and type(guard) is Cap:
                caps[cell] = min(int(n), caps.get(cell, int(n)))
            elif type(guard) in (Cap, WindowCap, Spend, Differ):
                lowest = checks.setdefault((type(guard), id(cell)), guard)
                if n < lowest.guard.n:
                    checks[type(guard), id(cell)] = guard
            elif type(guard) is Need:
                checks.setdefault((Need, id(cell), n), guard)
            else:
                checks[id(guard)] = guard
        self.need = tuple(need)
        self.ban = tuple(ban)
        self.caps = tuple(caps.items())
        self.checks = tuple(checks.values())

    def _find_clocks(self) -> None:
        cells: list[Any] = [guard.clocked() for guard in self.guards]
        cells += [getattr(mover, "cell", mover) for mover in self.movers]
        for entry, _ in self.asked:
            for rule in entry.every_rule():
                cells += [guard.clocked() for guard in rule.guards]
                cells += [getattr(mover, "cell", mover) for mover in rule.lenient + rule.strict]
        self.timelines = _clocks(cells)
        self.later = _clocks([cell for cell in cells if not isinstance(cell, Stamps)])


def split(movers: Sequence[Mover]) -> tuple[list[Tally], list[Mover]]:
    """The tallies and the others, each once."""
    once = {identity(mover): mover for mover in movers}.values()
    return [m for m in once if type(m) is Tally], [m for m in once if type(m) is not Tally]


def identity(mover: Mover) -> Hashable:
    """Equal for two movers that do the same: each contract has its own over a cell that it shares."""
    return (type(mover), id(getattr(mover, "cell", mover)), getattr(mover, "role", None))


def _answer(answers: dict[Any, bool | str], identity: Any, predicate: Predicate, args: Args) -> bool | str:
    if identity not in answers:
        answers[identity] = ask(predicate, args)
    return answers[identity]


def _clocks(cells: Sequence[Any]) -> tuple[MonotoneClock, ...]:
    found = (getattr(cell, "timeline", None) for cell in cells)
    return tuple(dict.fromkeys(timeline for timeline in found if timeline is not None))
