"""
Mark what cannot be derived again, because a log does not show what a decision rests on.

What a contract counted of arguments that nobody sees is unknown from then on, so each decision that it has a
part in is. What it did not learn from a result is unknown until the log tells it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...contracts.rules import Cell
from ...memory.cell import Mover
from ..plan.bound_contract import BoundContract
from ..plan.plan_book import PlanBook
from ..plan.planned_call import PlannedCall
from ..plan.rule_set import RuleSet
from .hidden_parts import learning_movers, not_shown, reading_hidden
from .journal_rules import GONE, FollowedRules


class UnseenMemory:
    """
    Keep the places of contracts whose memory is not known.

    Args:
        rules: The contracts.
    """

    def __init__(self, rules: FollowedRules) -> None:
        self._rules = rules
        self._tainted: set[int] = set()
        # By the step of the call whose result or arguments the log does not show.
        self._of_calls: dict[int, set[int]] = {}

    def hide(self, call: PlannedCall, given: Any, keys: Collection[str]) -> bool:
        """Take note of hidden arguments of a call; True if it matters to a contract what they are."""
        hidden = self._rules.places_of(reading_hidden(call, given, keys))
        self._tainted |= hidden - {GONE}
        return bool(hidden)

    def hide_lesson(self, call: PlannedCall, step: Mapping[str, Any], book: PlanBook) -> None:
        """Take note of what contracts have learnt from a call and the log does not show."""
        hidden = not_shown(call, step)
        if hidden:
            # Only then: each decision looks through all of these.
            self._of_calls[call.step] = self._remembering(hidden, book)

    def hide_lessons_for_good(self, call: PlannedCall, book: PlanBook) -> None:
        """Take note that what was learnt from a call will never be shown."""
        self._tainted |= self._remembering(learning_movers(call).keys(), book)

    def show_lesson(self, step: int) -> None:
        """Take note that all that was learnt from a call is shown by now."""
        self._of_calls.pop(step, None)

    def hide_cells(self, names: Collection[str], like: RuleSet) -> None:
        """Take note of cells of which no step shows what they held when the session went on."""
        hidden = frozenset(cell for cell in like.cells() if _is_among(names, cell.unique_name()))
        self._tainted |= self._places_with(hidden, like)

    @property
    def is_any(self) -> bool:
        """Tell whether there is anything that is not known."""
        return bool(self._tainted or self._of_calls)

    def forget(self) -> None:
        """Take note that all is known again: the session went on with another memory."""
        self._tainted, self._of_calls = set(), {}

    def is_about(self, call: PlannedCall) -> bool:
        """Tell whether a contract with something unknown has a part in the decision about a call."""
        tainted = self._tainted.union(*self._of_calls.values())
        if not tainted:
            return False
        about = {id(guard.contract) for guard in call.plan.guards}
        about |= {id(entry.contract) for entry, _ in call.plan.asked}
        return not tainted.isdisjoint(self._rules.places_of(about))

    def is_about_end(self) -> bool:
        """Tell whether a contract with something unknown requires something of the end."""
        tainted = self._tainted.union(*self._of_calls.values())
        return any(contract.at_end for contract in self._rules.known(sorted(tainted)))

    def replace(self, rules: Mapping[str, Any], like: RuleSet) -> None:
        """Put other contracts in place; those with the same memory do not know it either."""
        unknown = self._memory_of(self._tainted, like)
        of_calls = {step: self._memory_of(places, like) for step, places in self._of_calls.items()}
        self._rules.put(rules)
        self._tainted = self._places_with(unknown, like)
        self._of_calls = {step: self._places_with(memory, like) for step, memory in of_calls.items()}

    def _places_with(self, memory: frozenset[Cell], like: RuleSet) -> set[int]:
        places = range(len(self._rules.contracts)) if memory else ()
        return {place for place in places if not memory.isdisjoint(self._memory_of({place}, like))}

    def _memory_of(self, places: set[int], like: RuleSet) -> frozenset[Cell]:
        contracts = self._rules.known(sorted(places))
        return RuleSet(contracts, alone=like.alone, default_scope=like.default_scope).cells()

    def _remembering(self, names: Collection[str | None], book: PlanBook) -> set[int]:
        """Find the contracts with memory that learns under one of these names."""
        return {
            place
            for place, contract in enumerate(self._rules.contracts)
            if contract is not None
            and any(mover.learns in names for mover in _movers(book.bound_to(contract)))
        }


def _movers(bound: BoundContract) -> Iterator[Mover]:
    for rule in bound.every_rule():
        yield from rule.movers
    yield from bound.watched()


def _is_among(names: Collection[str], cell: str) -> bool:
    # That of a contract that was added on the way says when.
    return any(name == cell or name.startswith(f"{cell} since ") for name in names)
