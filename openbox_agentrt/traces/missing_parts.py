"""Parts of a recording that nobody wrote down, and the contracts that cannot be judged without them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..acel.contracts.rules import Cell
from ..acel.engine.plan.outline import FiledContract
from ..acel.engine.plan.reads import contracts_guarding, contracts_reading, reads_arguments
from ..acel.events import USER_PROMPT
from ..acel.rulesfile import Rules
from .events import Began
from .judged_session import JudgedSession

__all__ = ("MissingParts", "NotRecorded")

MOST_PLANS = 4096


class NotRecorded(NamedTuple):
    """Say what of a call and its session was not recorded, by the words of `contracts_reading`."""

    arguments: bool
    times: bool
    results: bool
    prompts: bool
    subject: bool
    memory: bool
    state: bool


class MissingParts:
    """
    Tell which contracts cannot be judged, of sessions that all have the same contracts.

    Args:
        rules: The rules, by whose order contracts are told.
    """

    def __init__(self, rules: Rules) -> None:
        self._places = {id(contract): place for place, contract in enumerate(rules.contracts)}
        self._plans: dict[
            tuple[str, tuple[bool, ...], frozenset[int]], tuple[frozenset[int], frozenset[int]]
        ] = {}

    def note_never_ended(self, kept: JudgedSession, tool: str) -> None:
        """Remember which contracts would ask how long a call ran that was refused when it was recorded."""
        plan = kept.engine.store.book.plan(tool)
        asked = [guard for entry, _ in plan.asked for rule in entry.every_rule() for guard in rule.guards]
        cells = [(guard.contract, guard.guard.cell) for guard in (*plan.guards, *asked)]
        flying = {id(contract) for contract, cell in cells if cell is not None and cell.kind == "flights"}
        kept.miscounted |= self.places(flying)

    def note_hidden(self, kept: JudgedSession, call: Began) -> None:
        """Remember which contracts cannot count a call whose arguments nobody wrote down."""
        if call.args is not None:
            return
        kept.hides_prompts = kept.hides_prompts or call.tool == USER_PROMPT
        filed = kept.engine.store.book.rules.filed
        kept.miscounted |= {
            place
            for contract, place in self._places.items()
            if contract in filed and _counts_arguments(filed[contract], call.tool)
        }

    def guarding(self, kept: JudgedSession, call: Began) -> tuple[frozenset[int], frozenset[int]]:
        """Find the contracts that may object to a call, and those of which nobody can tell if they do."""
        # In the order of `NotRecorded`.
        missing = (
            call.args is None,
            call.at is None,
            not kept.has_results,
            kept.hides_prompts or not kept.has_prompts,
            call.about is None,
            kept.is_resumed,
            not kept.has_state,
        )
        name = (call.tool, missing, kept.miscounted)
        known = self._plans.get(name)
        if known is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            known = self._plans[name] = self._guarding(kept, call.tool, NotRecorded(*missing))
        return known

    def _guarding(
        self, kept: JudgedSession, tool: str, missing: NotRecorded
    ) -> tuple[frozenset[int], frozenset[int]]:
        plan = kept.engine.store.book.plan(tool)
        every = self.places(contracts_guarding(plan))
        sure = self.places(id(guard.contract) for guard in plan.guards)
        unknown = self.places(contracts_reading(plan, **missing._asdict())) | (kept.miscounted & every)
        return every if missing.arguments else sure, unknown

    def places(self, contracts: Iterable[int]) -> frozenset[int]:
        """Give the positions of contracts that are named by their identity."""
        return frozenset(self._places[key] for key in contracts if key in self._places)


def _counts_arguments(filed: FiledContract, tool: str) -> bool:
    """Tell whether it matters to what a contract remembers of calls of a tool what their arguments were."""
    contract = filed.contract
    told = any(watch.tool == tool and _tells_arguments(watch.move.cell) for watch in contract.watches)
    hits = [role.selector.on(tool, strict=role.strict) for role in contract.roles]
    if told or not all(isinstance(hit, bool) for hit in hits):
        return True
    moves = filed.rule(tuple(hit is True for hit in hits)).moves if any(hits) else ()
    return any(reads_arguments(move.cell) for move in moves)


def _tells_arguments(cell: Cell) -> bool:
    fact = cell.fact
    told = () if fact is None else (fact.key, *(source for _, source in fact.values))
    return any(source is not None and source.of == "args" for source in told)
