"""
Contracts that have nothing to do with one another are searched apart.

Two that remember something belong together where one call is about both. One that remembers nothing, such as
`never`, joins none, and is asked wherever a call is about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...contracts.declaration import Declaration
from ...match.names import normal_name
from ..conditions.followed import calls_counted, tools_told_by
from .analysable import guards_of, rules_of
from .tool_names import NamesByBeginning, tools_in

__all__ = (
    "MANY_VALUES",
    "MOST_VALUES",
    "Component",
    "components",
    "names_about",
    "names_near",
    "remembers",
    "touched",
    "values_needed",
)

MOST_VALUES = 8
"""So many values of a key are told apart at most, and"""

MANY_VALUES = 26
"""so many where one trace is looked for, and not all."""


@dataclass(frozen=True, slots=True)
class Component:
    """
    Contracts that are searched together.

    Attributes:
        contracts: Their positions.
        names: The tools whose calls are about them.
    """

    contracts: tuple[int, ...]
    names: tuple[str, ...]


def components(
    contracts: Sequence[Declaration], touched: Mapping[str, Sequence[int]], among: Iterable[int]
) -> list[Component]:
    """
    Put contracts together that have to do with one another.

    Args:
        contracts: All contracts.
        touched: Of each tool, the contracts that its calls are about.
        among: Those to be put together.
    """
    some = frozenset(among)
    lasting = {place for place in some if remembers(contracts[place])}
    parent = {place: place for place in lasting}

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for places in touched.values():
        joined = [place for place in places if place in lasting]
        for place in joined[1:]:
            parent[root(place)] = root(joined[0])
    members: dict[int | None, dict[int, None]] = {}
    names: dict[int | None, list[str]] = {}
    for place in sorted(lasting):
        members.setdefault(root(place), {})[place] = None
    for name, places in touched.items():
        here = [place for place in places if place in some]
        if here:
            head = next((root(place) for place in here if place in lasting), None)
            members.setdefault(head, {}).update(dict.fromkeys(here))
            names.setdefault(head, []).append(name)
    return [Component(tuple(sorted(of)), tuple(names.get(head, ()))) for head, of in members.items()]


def touched(contracts: Sequence[Declaration], names: Iterable[str]) -> dict[str, list[int]]:
    """Find of each tool the contracts that its calls are about, by their positions."""
    known = NamesByBeginning(names)
    found: dict[str, set[int]] = {name: set() for name in known.names}
    for place, contract in enumerate(contracts):
        if contract.everywhere:
            near = known.names
        else:
            said = (name for role in contract.roles for name in tools_in(role.selector.form()))
            near = list(dict.fromkeys(name for one in said for name in known.fitting(one)))
        for name in near:
            if contract.everywhere or any(
                role.selector.on(normal_name(name), strict=role.strict) is not False
                for role in contract.roles
            ):
                found[name].add(place)
        for tool in tools_told_by(contract):
            for name in known.fitting(tool):
                found[name].add(place)
    return {name: sorted(places) for name, places in found.items()}


def names_about(touched: Mapping[str, Sequence[int]]) -> dict[int, list[str]]:
    """Find of each contract the tools whose calls it is about, in the order of `touched`."""
    found: dict[int, list[str]] = {}
    for name, places in touched.items():
        for place in places:
            found.setdefault(place, []).append(name)
    return found


def names_near(about: Mapping[int, Sequence[str]], places: Iterable[int]) -> tuple[str, ...]:
    """Give the tools whose calls some contracts are about, each once, by what `names_about` found."""
    return tuple(dict.fromkeys(name for place in places for name in about.get(place, ())))


def remembers(contract: Declaration) -> bool:
    """Tell whether what happened matters to a contract."""
    if tools_told_by(contract):
        return True
    return any(rule.moves for rule in rules_of(contract)) or any(
        guard.kind not in ("never", "condition") for guard in guards_of(contract)
    )


def values_needed(contracts: Iterable[Declaration]) -> int:
    """Say how many values of a key limits over all values can need, so that they are told apart."""
    most, whole, split = 2, 0, 0
    for contract in contracts:
        counted = calls_counted(contract)
        most = max(most, counted + 1) if counted else most
        for guard in guards_of(contract):
            if guard.cell is None:
                continue
            if guard.kind == "spend" and guard.cell.key is None:
                whole = max(whole, int(guard.n))
            elif guard.kind == "spend":
                split = min(split, int(guard.n)) or int(guard.n)
            elif guard.kind == "distinct" or (guard.kind in ("cap", "need") and guard.cell.key is None):
                most = max(most, int(guard.n) + 1)
    if split:
        most = max(most, whole // split + 2)
    return most
