"""
Plan what has to be done for a call of one tool in one session.

A plan is made when a tool is first called and kept. It holds the guards and moves of the contracts
about this tool and of no others, so the number of other contracts does not matter. Comparisons of
plain tallies, by far the most frequent, are laid out as tuples of tallies that the store compares
itself; of several limits on one memory only the lowest is asked, since where it holds all do.

Contracts whose matchers look at arguments are asked per call, before any lock is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...._values import dataclass, field
from ...contracts.base import REPLACED
from ...contracts.rules import Cell, Guard, GuardKind
from ...match.matchers import Args, Predicate
from ...match.selector import Hit, ask
from ...memory.call import JudgedCall
from ...memory.cell import Mover
from ...memory.clock import Timeline, together
from ...memory.distinct import Differ
from ...memory.guard import CellGuard, LiveGuard, NeverHolds
from ...memory.session_memory import SessionMemory
from ...memory.tally import Ban, Cap, Need, Tally
from ...memory.total import Spend
from ...memory.window import Stamps, WindowCap
from .bound_contract import BoundContract, LiveRule
from .outline import FiledContract, Hits, TallyRules

if TYPE_CHECKING:
    from ...contracts.tools import ToolSpec

Landing: TypeAlias = Sequence[Tally] | None
"""
The tallies of a call that count its success, where that is all that its end is; None where it is more.

They are counted when the lock is taken next, and not by whoever ends the call. Nobody can tell the
difference: who wants to know how things stand takes the lock. They are kept, and not the call, which would
hold the session that holds it.
"""

MAX_ANSWERS = 64
"""What follows from so many different sets of answers about arguments is kept for each tool."""

_OF_NUMBERS: Mapping[GuardKind, type[CellGuard]] = {"need": Need, "ban": Ban, "cap": Cap}

_NO_QUESTIONS: Mapping[Hashable, Predicate] = {}

# One for all: each empty set that is made is memory of its own, in every session.
NONE: frozenset[Any] = frozenset()


@dataclass(slots=True, kw_only=True)
class ArgumentRules:
    """
    Hold what the contracts that look at arguments say about one call.

    Attributes:
        guards: What has to hold.
        counts: Tallies that the call moves, besides those of its plan.
        movers: What else it moves.
        moves: All that it moves, those tallies excepted.
        landing: What its success moves, if that is all that its end is, see `Landing`.
        faults: What could not be asked, by the identity of the contract.
        open: Contracts with a condition that is asked under the lock, each with the roles that are matched.
    """

    guards: list[LiveGuard] = field(default_factory=list)
    counts: list[Tally] = field(default_factory=list)
    movers: list[Mover] = field(default_factory=list)
    moves: Sequence[Mover] = ()
    landing: Landing = None
    faults: dict[int, str] = field(default_factory=dict)
    open: list[tuple[BoundContract, Hits]] = field(default_factory=list)

    def also(self, guards: Sequence[LiveGuard]) -> ArgumentRules:
        """Give the same with further guards. Calls whose arguments are answered the same share one."""
        return ArgumentRules(
            guards=[*self.guards, *guards],
            counts=self.counts,
            movers=self.movers,
            moves=self.moves,
            landing=self.landing,
            faults=self.faults,
            open=self.open,
        )


class Plan:
    """
    Hold everything that a call of one tool needs.

    Attributes:
        tool: Name of the tool, in NFC.
        spec: What is registered for the tool itself.
        need: Tallies of which each needs a success.
        ban: Tallies that must not have started.
        caps: Tallies, each with the lowest of its limits.
        checks: Further guards that are asked.
        counts: Tallies that the call moves.
        movers: What else the call moves.
        asked: Contracts that look at arguments, each with what is left to ask.
        fleet: Contracts whose memory is that of a shared store, each with the roles that a call has.
        learns: Whether what such a call finds out is remembered.
        ends: What is registered for the tool, if a result is checked or becomes state.
        landing: What the success of such a call moves, if that is all that its end is, see `Landing`.
        heeds_success: Whether it matters to what is asked how many calls have succeeded.
        stale: Whether the rules were replaced since, so that it lets nothing through any more.
        timeline: What judging reads of time, if anything.
        later: What settling reads of it.
    """

    checks: tuple[LiveGuard, ...]
    __slots__ = (
        "_answered",
        "_guards",
        "_make_guards",
        "_moved",
        "_questions",
        "asked",
        "ban",
        "caps",
        "checks",
        "counts",
        "ends",
        "fleet",
        "heeds_success",
        "landing",
        "later",
        "learns",
        "movers",
        "need",
        "spec",
        "stale",
        "timeline",
        "tool",
    )

    def __init__(self, tool: str, spec: ToolSpec | None, lets_land: bool) -> None:
        """By itself it asks nothing, and moves nothing."""
        self.tool = tool
        self.spec = spec
        self.asked: Sequence[tuple[BoundContract, tuple[Hit, ...]]] = ()
        self.fleet: Sequence[tuple[FiledContract, tuple[Hit, ...]]] = ()
        self.need: tuple[Tally, ...] = ()
        self.ban: tuple[Tally, ...] = ()
        self.caps: tuple[tuple[Tally, int], ...] = ()
        self.checks = ()
        self.counts: tuple[Tally, ...] = ()
        self.movers: tuple[Mover, ...] = ()
        self.timeline: Timeline = None
        self.later: Timeline = None
        self.learns = False
        self.ends = spec if spec is not None and spec.is_about_results else None
        self.heeds_success = False
        self.landing: Landing = () if lets_land and self.ends is None else None
        self.stale = False
        self._moved = NONE
        self._questions: Mapping[Hashable, Predicate] = _NO_QUESTIONS
        self._answered: dict[tuple[bool | str, ...], ArgumentRules] | None = None
        self._guards: tuple[LiveGuard, ...] | None = None
        self._make_guards: Callable[[], Iterable[LiveGuard]] = _no_guards

    def count(
        self, tallies: TallyRules, memory: SessionMemory, decided: Sequence[tuple[FiledContract, Hits]]
    ) -> None:
        """
        Lay it out by rules that compare and move numbers of calls alone.

        Args:
            tallies: What they say.
            memory: Where the numbers are.
            decided: Whose rules they are. Guards are made of them once a call is to be explained.
        """
        live: list[Any] = list(map(memory.cell, tallies.cells))
        if tallies.need:
            self.need = tuple([live[place] for place in tallies.need])
        if tallies.ban:
            self.ban = tuple([live[place] for place in tallies.ban])
        if tallies.caps:
            self.caps = tuple([(live[place], most) for place, most in tallies.caps])
        if tallies.counts:
            self.counts = tuple([live[place] for place in tallies.counts])
        self.heeds_success = bool(self.need)
        self._land(True)
        # Not by the memory: it may have been forgotten there by then, since other rules are in force.
        self._make_guards = lambda: _guards_of(decided, dict(zip(tallies.cells, live, strict=True)))

    def bind(
        self,
        *,
        decided: Sequence[tuple[BoundContract, Hits]],
        asked: Sequence[tuple[BoundContract, tuple[Hit, ...]]],
        guards: Sequence[LiveGuard],
        movers: Sequence[Mover],
        fleet: Sequence[tuple[FiledContract, tuple[Hit, ...]]],
    ) -> None:
        """Lay it out by rules of any kind; `guards` and `movers` are those that come from no contract."""
        self._find_questions(asked)
        self.fleet = fleet
        guards = list(guards)
        movers = list(movers)
        for entry, hits in decided:
            rule = entry.rule(hits)
            guards += rule.guards
            movers += rule.movers
        self._guards = tuple(guards)
        tallies, others = _split(movers)
        self.counts = tuple(tallies)
        self.movers = tuple(others)
        self._moved = frozenset(map(identity, others)) if others else NONE
        self._lay_out(guards)
        asked_rules = [rule for entry, _ in asked for rule in entry.every_rule()]
        self._find_clocks(guards, asked_rules)
        movable = [*movers, *(mover for rule in asked_rules for mover in rule.movers)]
        self.learns = any(mover.learns is not None for mover in movable)
        lands = not (self.learns or self.later or any(mover.heeds_success for mover in others))
        self._land(lands)
        heeding = [guard for rule in asked_rules for guard in rule.guards] + guards
        self.heeds_success = any(guard.heeds_success for guard in heeding) or any(
            entry.contract.is_asked_when for entry, _ in asked
        )

    @property
    def guards(self) -> tuple[LiveGuard, ...]:
        """List every guard. They are asked when a call is explained, and some are made then."""
        if self._guards is None:
            self._guards = tuple(self._make_guards())
        return self._guards

    def ask(self, args: Args) -> ArgumentRules:
        """Ask the contracts that look at arguments about a call with these. Others may be given the same."""
        said = []
        for question in self._questions.values():
            said.append(ask(question, args))
        answers = tuple(said)
        if self._answered is None:
            return self._answer(answers)
        extra = self._answered.get(answers)
        if extra is None:
            extra = self._answer(answers)
            if not extra.faults and len(self._answered) < MAX_ANSWERS:
                self._answered[answers] = extra
        return extra

    def _answer(self, answers: Sequence[bool | str]) -> ArgumentRules:
        answered = dict(zip(self._questions, answers, strict=True))
        extra = ArgumentRules()
        rules: list[LiveRule] = []
        for entry, hits in self.asked:
            settled = []
            for role, hit in zip(entry.contract.roles, hits, strict=True):
                if isinstance(hit, bool):
                    settled.append(hit)
                    continue
                answer = answered[role.selector.identity, role.strict]
                if isinstance(answer, str):
                    extra.faults[id(entry.contract)] = answer
                    answer = role.strict
                settled.append(answer)
            if any(settled) or entry.contract.everywhere:
                if entry.contract.is_asked_when:
                    extra.open.append((entry, tuple(settled)))
                else:
                    rules.append(entry.rule(tuple(settled)))
        self._take(rules, extra)
        return extra

    def decide(self, call: JudgedCall, extra: ArgumentRules) -> None:
        """
        Ask the conditions that say when contracts are asked. The store's lock is held.

        What they read, facts and counts, moves under that lock. One that cannot be evaluated is taken for
        true: the contract is asked.
        """
        rules = []
        for entry, hits in extra.open:
            assert entry.when is not None
            answer = entry.when.ask(call)
            if answer.fault is not None or answer.needs is not None:
                extra.faults.setdefault(id(entry.contract), answer.fault or f"when needs {answer.needs}")
            elif not answer.holds:
                rules.append(entry.unasked_rule(hits))
                continue
            rules.append(entry.rule(hits))
        extra.open = []
        self._take(rules, extra)

    def _take(self, rules: Sequence[LiveRule], extra: ArgumentRules) -> None:
        extra.guards += [guard for rule in rules for guard in rule.guards]
        movers = [*extra.counts, *extra.movers, *(mover for rule in rules for mover in rule.movers)]
        # What is moved anyway is not moved twice.
        tallies, others = _split(movers)
        extra.counts = [tally for tally in tallies if tally not in self.counts]
        extra.movers = [mover for mover in others if identity(mover) not in self._moved]
        extra.moves = (*self.movers, *extra.counts, *extra.movers)
        extra.landing = None
        if self.landing is not None and not any(mover.heeds_success for mover in extra.movers):
            extra.landing = (*self.landing, *extra.counts)

    def retire(self) -> None:
        """Let nothing through any more: other rules are in force."""
        self.stale = True
        self.checks = (NeverHolds(REPLACED, Guard(kind="never")), *self.checks)

    def _land(self, lands: bool) -> None:
        if self.landing is not None:
            self.landing = self.counts if lands else None

    def _find_questions(self, asked: Sequence[tuple[BoundContract, tuple[Hit, ...]]]) -> None:
        self.asked = asked
        questions: dict[Hashable, Predicate] = {}
        for entry, hits in asked:
            for role, hit in zip(entry.contract.roles, hits, strict=True):
                if not isinstance(hit, bool):
                    questions.setdefault((role.selector.identity, role.strict), hit)
        self._questions = questions
        # What a condition says is another thing for each call.
        if asked and not any(entry.contract.is_asked_when for entry, _ in asked):
            self._answered = {}

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

    def _find_clocks(self, guards: Sequence[LiveGuard], asked_rules: Sequence[LiveRule]) -> None:
        cells: list[Any] = [guard.clocked() for guard in guards]
        cells += [getattr(mover, "cell", mover) for mover in self.movers]
        for rule in asked_rules:
            cells += [guard.clocked() for guard in rule.guards]
            cells += [getattr(mover, "cell", mover) for mover in rule.movers]
        cells += [entry.when for entry, _ in self.asked]
        self.timeline = _clocks(cells)
        self.later = _clocks([cell for cell in cells if not isinstance(cell, Stamps)])


def _no_guards() -> Iterable[LiveGuard]:
    return ()


def _guards_of(
    decided: Sequence[tuple[FiledContract, Hits]], cells: Mapping[Cell | None, Tally]
) -> Iterator[LiveGuard]:
    for filed, hits in decided:
        for guard in filed.rule(hits).guards:
            yield _OF_NUMBERS[guard.kind](filed.contract, guard, cells[guard.cell])


def identity(mover: Mover) -> Hashable:
    """Name what a mover does: each contract has a mover of its own over a cell that it shares."""
    return (type(mover), id(getattr(mover, "cell", mover)), getattr(mover, "role", None))


def _split(movers: Sequence[Mover]) -> tuple[list[Tally], list[Mover]]:
    once = {identity(mover): mover for mover in movers}.values()
    return [m for m in once if type(m) is Tally], [m for m in once if type(m) is not Tally]


def _clocks(cells: Sequence[Any]) -> Timeline:
    return together(getattr(cell, "timeline", None) for cell in cells)
