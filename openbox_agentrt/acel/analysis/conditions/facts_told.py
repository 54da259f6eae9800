"""
Follow what calls tell a session, in a search: in which calls, and of which values it is kept apart.

A fact is kept by the engine's own memory. Here is only said which results are tried, and under which group of
values its keys are: those of the arguments by which conditions look it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...._plain.amounts import Amount
from ...condition.fact import Fact
from ...contracts.declaration import Declaration
from .compared_values import ComparedValues, Domains, ReadPlace
from .followed import Followed, asked_by, read_together

__all__ = ("domains_of", "facts_in", "joined_keys", "key_slot", "places_told", "slots_by_keys")


def facts_in(contracts: Iterable[Declaration]) -> list[Fact]:
    """Give the facts whose telling is followed, each once."""
    found = {fact.label: fact for asked in _asked(contracts) for fact in asked.facts}
    return list(found.values())


def domains_of(
    contracts: Iterable[Declaration], amounts: Mapping[str, Iterable[Amount]], *, few: bool = False
) -> Domains:
    """
    Choose the values of places that the conditions of some contracts compare with one another.

    Args:
        contracts: The contracts.
        amounts: Of arguments that contracts add up, the amounts that are tried.
        few: Choose fewer, which need not show every answer.
    """
    found = read_together(_asked(contracts))
    for path, tried in amounts.items():
        # What is compared with such an argument has to be above and below each of its amounts.
        found.compared.setdefault(ReadPlace("args", path), ComparedValues()).bounds.update(
            map(_number, tried)
        )
    return Domains(found.compared, found.links, few=few)


def _number(amount: Amount) -> int | float:
    return int(amount) if amount == int(amount) else float(amount)


def key_slot(fact: Fact) -> str | None:
    """Name the place where the key of a fact stands: an argument, or what stands for a part of a result."""
    if fact.key is None:
        return None
    return str(fact.key.path) if fact.key.of == "args" else f"result told of {fact.label}"


def joined_keys(contract: Declaration) -> Iterator[list[str]]:
    """Put the places together in which the keys of one fact stand."""
    for asked in asked_by(contract):
        for fact in asked.facts:
            slot = key_slot(fact)
            if slot is not None:
                yield [slot, *sorted(asked.reading.keys.get(fact.label, ()))]


def slots_by_keys(contracts: Iterable[Declaration]) -> Iterator[str]:
    """Give the arguments by which conditions look facts up."""
    for asked in _asked(contracts):
        for paths in asked.reading.keys.values():
            yield from sorted(paths)


def places_told(contracts: Sequence[Declaration]) -> dict[ReadPlace, ComparedValues]:
    """Find what conditions compare each value of facts with."""
    compared = read_together(_asked(contracts)).compared
    return {place: values for place, values in compared.items() if place.of == "fact"}


def _asked(contracts: Iterable[Declaration]) -> Iterator[Followed]:
    return (asked for contract in contracts for asked in asked_by(contract))
