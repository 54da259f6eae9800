"""
Conditions in a search: those that a few values of arguments decide, and those that are taken either way.

A condition that compares arguments with values is evaluated as it is, for arguments that show every answer it
can give. Of any other, such as one over facts, each call is tried with both answers. That is more than can
happen, so what is impossible then is impossible; what is possible is shown only where a session confirms it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ..condition.condition import Condition
from ..condition.runtime import Lookup, Program
from ..condition.source import Reads
from ..contracts.declaration import Declaration
from ..contracts.requires import Requires
from ..contracts.rules import Guard, Rule
from .condition_texts import ComparedValues, NotUnderstoodError, values_in

__all__ = ("asked_by", "free_name", "freed", "is_free", "values_of")


def asked_by(contract: Declaration) -> tuple[Condition, ...]:
    """Give the conditions that a contract asks of calls."""
    return contract.conditions


def is_free(condition: Condition) -> bool:
    """Tell whether a condition is tried with both answers."""
    return _values(condition) is None


def values_of(conditions: Iterable[Condition]) -> dict[str, ComparedValues]:
    """Find the values of arguments that show every answer of those conditions that are not free."""
    found: dict[str, ComparedValues] = {}
    for condition in conditions:
        for path, values in (_values(condition) or {}).items():
            found.setdefault(path, ComparedValues()).join(values)
    return found


def free_name(condition: Condition) -> str:
    """Name the argument that holds the answer of a condition that is free. No tool has such an argument."""
    return f"\0{condition.form}"


def freed(contract: Declaration) -> Declaration:
    """Copy a contract, with the answers of its free conditions read from arguments of that name."""
    own = copy.copy(contract)
    if not any(map(is_free, contract.conditions)):
        return own
    own.when = None if own.when is None else _freed(own.when)
    if isinstance(own, Requires):
        (guard,) = own.rule((True,)).guards
        assert guard.condition is not None
        answered: Any = Guard(kind="condition", condition=_freed(guard.condition))
        own.__dict__["_rule"] = Rule(guards=(answered,))
    # What other calls tell matters to no answer now.
    own.__dict__.update(facts=(), watches=())
    return own


@functools.lru_cache(maxsize=4096)
def _values(condition: Condition) -> Mapping[str, ComparedValues] | None:
    reads = condition.reads
    if reads.facts or reads.tools or reads.now or reads.subject:
        return None
    try:
        return values_in(condition.form)
    except NotUnderstoodError:
        return None


def _freed(condition: Condition) -> Condition:
    return _FreeCondition(condition) if is_free(condition) else condition


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
