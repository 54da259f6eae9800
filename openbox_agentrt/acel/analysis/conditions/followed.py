"""
Conditions in a search: the parts that can be followed, and those that are taken either way.

A part that compares arguments, what calls have told, and how many calls there were, with values is evaluated
as it is: what a call tells is part of a state. Of any other part, such as one over the time, each call is
tried with every answer. That is more than can happen, so what is impossible then is impossible; what is
possible is shown only where a session confirms it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...condition.condition import Condition
from ...condition.fact import Fact
from ...condition.runtime import Lookup, Program
from ...condition.source import Reads
from ...contracts.declaration import Declaration
from ...contracts.requires import Requires
from ...contracts.rules import Guard, Rule
from ...match.names import normal_name
from .reading import ConditionReading, read_condition
from .token_reader import NotUnderstoodError

__all__ = (
    "Followed",
    "asked_by",
    "calls_counted",
    "followed",
    "free_name",
    "freed",
    "open_parts",
    "read_together",
    "tools_told_by",
)

# With more open parts than these, a condition is open as a whole.
_MOST_OPEN = 2


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """
    A condition as a search asks it.

    Attributes:
        condition: The condition, with an argument in the place of each part that is open.
        reading: What is understood of it; nothing where it is open as a whole.
        open: The names of the arguments that hold the answers of open parts.
        is_free: Whether it is open as a whole, and one argument holds its answer.
    """

    condition: Condition
    reading: ConditionReading
    open: tuple[str, ...] = ()
    is_free: bool = False

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that it reads."""
        return tuple(fact for fact in self.condition.facts if fact.label in self.reading.told)


def asked_by(contract: Declaration) -> tuple[Followed, ...]:
    """Give the conditions of a contract as a search asks them."""
    return tuple(map(followed, contract.conditions))


def read_together(every: Iterable[Followed]) -> ConditionReading:
    """Put together what is understood of several conditions."""
    found = ConditionReading()
    for asked in every:
        found.take(asked.reading)
    return found


def open_parts(contract: Declaration) -> list[str]:
    """Give the parts of the conditions of a contract that are taken either way."""
    return [part for asked in asked_by(contract) for part in asked.reading.open.values()]


def tools_told_by(contract: Declaration) -> frozenset[str]:
    """Find the tools whose calls change the answers of conditions that are followed."""
    asked = asked_by(contract)
    counted = (normal_name(tool) for each in asked for tool in each.reading.counts)
    told = (tool for each in asked for fact in each.facts for tool in fact.tools)
    return frozenset((*counted, *told))


def calls_counted(contract: Declaration) -> int:
    """Say how many successful calls it takes, of all tools, to pass every number that its conditions name."""
    return sum(max(numbers) + 1 for asked in asked_by(contract) for numbers in asked.reading.counts.values())


def free_name(condition: Condition) -> str:
    """Name the argument that holds the answer of a condition that is free. No tool has such an argument."""
    return f"\0{condition.form}"


def freed(contract: Declaration) -> Declaration:
    """Copy a contract, with the answers that are open read from arguments of that name."""
    own = copy.copy(contract)
    if not any(asked.open or asked.is_free for asked in asked_by(contract)):
        return own
    own.conditions = tuple(asked.condition for asked in asked_by(contract))
    own.when = None if own.when is None else followed(own.when).condition
    if isinstance(own, Requires):
        (guard,) = own.rule((True,)).guards
        assert guard.condition is not None
        answered: Any = Guard(kind="condition", condition=followed(guard.condition).condition)
        own.__dict__["_rule"] = Rule(guards=(answered,))
    # What other calls tell matters to no answer that is open.
    own.__dict__.pop("facts", None)
    own.__dict__.pop("watches", None)
    return own


@functools.lru_cache(maxsize=4096)
def followed(condition: Condition) -> Followed:
    """Find how a search asks a condition."""
    facts = {fact.name: fact for fact in condition.facts}
    try:
        reading = read_condition(condition.form, facts)
    except NotUnderstoodError:
        return _as_free(condition)
    if not reading.open:
        return Followed(condition, reading)
    if len(reading.open) > _MOST_OPEN or not (reading.compared or reading.told or reading.counts):
        return _as_free(condition)
    told = [fact for fact in condition.facts if fact.label in reading.told]
    return Followed(Condition(reading.text, told), reading, tuple(reading.open))


def _as_free(condition: Condition) -> Followed:
    reading = ConditionReading(open={free_name(condition): condition.form})
    return Followed(_FreeCondition(condition), reading, is_free=True)


class _FreeCondition(Condition):
    """A condition whose answer is an argument."""

    __slots__ = ()

    def __init__(self, condition: Condition) -> None:
        self.text, self.form, self.facts = condition.text, condition.form, ()
        name = free_name(condition)
        self.reads = Reads(rewritten=name, form=condition.form, line=condition.text, args={name})
        self.program = _Answer(name)


class _Answer(Program):
    """Give the answer that stands in the arguments."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__(None)
        self._name = name

    def ask(self, data: Mapping[str, Any], lookup: Lookup) -> bool | str:
        answer = data["args"].get(self._name)
        return answer if isinstance(answer, bool) else "it has no answer"
