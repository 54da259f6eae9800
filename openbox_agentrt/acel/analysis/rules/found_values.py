"""
Values that calls find out: which of them are tried, and in which results they stand.

A value matters by who has vouched for it. So one that every source can find stands for all of them, and one
that none ever finds for all others; where a key counts values too, there are some more of the first kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...contracts.declaration import Declaration
from ...contracts.provenance import CameFrom, KeepsOut
from ...contracts.rules import Cell, Guard
from ...contracts.sources import Source
from ...match.results import Result
from .analysable import guards_of

__all__ = (
    "alike_sources",
    "fields_looked_for",
    "looked_for",
    "result_with",
    "slot_of",
    "slots_of_cells",
    "sources_of",
    "texts_for",
)

_LETTERS = "ABCDEFGH"
# Of values that are listed, so many are tried.
_MAX_LISTED = 4


def sources_of(contract: Declaration) -> tuple[Source, ...]:
    """Give the calls whose values a contract knows again."""
    if isinstance(contract, CameFrom):
        return contract.sources
    return (contract.source,) if isinstance(contract, KeepsOut) else ()


def looked_for(contract: Declaration) -> tuple[str, ...]:
    """Give the argument whose values a contract looks for among those that calls find out, if it does."""
    return (contract.field,) if isinstance(contract, CameFrom | KeepsOut) else ()


def fields_looked_for(contract: Declaration, name: str) -> tuple[str, ...]:
    """Give the same argument, of a tool that the contract judges."""
    return looked_for(contract) if contract.roles[0].selector.on(name) is not False else ()


def slot_of(source: Source) -> str:
    """Name the place where a source finds a value: an argument, or what stands for a part of a result."""
    if source.given:
        return str(source.path)
    return f"result of {json.dumps(source.selector.form())}: {source.path or ''}"


def slots_of_cells(contracts: Iterable[Declaration]) -> dict[Cell, str]:
    """Name the same place for the memory of each source of some contracts."""
    slots = {}
    for contract in contracts:
        for guard in guards_of(contract):
            cells = guard.sources if guard.cell is None else (guard.cell,)
            slots.update({cell: slot_of(of) for cell, of in zip(cells, sources_of(contract), strict=False)})
    return slots


def alike_sources(contracts: Iterable[Declaration]) -> Iterator[list[Cell]]:
    """Put the sources together that vouch for the same: a value is known if any of them has found it."""
    asking: dict[Cell, list[Guard]] = {}
    for contract in contracts:
        for guard in guards_of(contract):
            for cell in guard.sources:
                asking.setdefault(cell, []).append(guard)
    alike: dict[tuple[Any, ...], list[Cell]] = {}
    for cell, guards in asking.items():
        alike.setdefault((cell.within, *map(id, guards)), []).append(cell)
    yield from alike.values()


def texts_for(contracts: Sequence[Declaration], count: int) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """
    Choose the values of an argument that some contracts look for.

    Args:
        contracts: The contracts.
        count: So many values that can be found out are told apart.

    Returns:
        Values that calls can find out, further ones that none finds, and whether these stand for all.
    """
    every = {contract.match for contract in contracts if isinstance(contract, CameFrom)}
    matches = every - {"exact"}
    pattern = "{}"
    if matches:
        pattern = "someone@{}.example" if "domain" in matches else "https://{}.example/"
    listed, all_listed = _listed_in(contracts)
    known = {str(value).casefold() for contract in contracts for value in getattr(contract, "listed", ())}
    free = [text for letter in _LETTERS if (text := pattern.format(letter)).casefold() not in known]
    whole = all_listed and ("domain" not in matches or len(matches) == 1) and count < len(free)
    # What some compare as a whole, and others by its host: one of a host that is found, and is not itself.
    beside = [f"other-{free[0]}" if "domain" in matches else f"{free[0]}other"] if len(every) > 1 else []
    return (*free[:count], *listed), (*free[count : count + 1], *beside), whole


def _listed_in(contracts: Iterable[Declaration]) -> tuple[tuple[str, ...], bool]:
    """Choose one of the values that the same contracts list, and tell whether there are no more kinds."""
    listing: dict[str, list[int]] = {}
    for place, contract in enumerate(contracts):
        for value in contract.listed if isinstance(contract, CameFrom) else ():
            listing.setdefault(str(value), []).append(place)
    kinds = {tuple(places): value for value, places in reversed(listing.items())}
    return tuple(kinds.values())[:_MAX_LISTED], len(kinds) <= _MAX_LISTED


def result_with(
    places: Iterable[tuple[str, str | None]],
    values: Mapping[str, str],
    told: Iterable[tuple[str, Any]] = (),
) -> Any:
    """
    Make a result in which values stand.

    Args:
        places: The slots of a call that stand for parts of its result, each with the path.
        values: The values of slots.
        told: Further values, by their paths.

    Returns:
        The result; None if no value stands in it.
    """
    made: Any = None
    for slot, path in places:
        if slot in values:
            made = _joined(made, _standing(None if path is None else path.split("."), values[slot]))
    for path, value in told:
        made = _joined(made, _standing(path.split(".") if path else None, value))
    if isinstance(made, dict) and Result(made).data is not made:
        # With one more entry it is no wrapping, such as that of MCP, which would be taken off.
        made["id"] = 1
    return made


def _standing(parts: list[str] | None, value: Any) -> Any:
    if not parts:
        return value
    inner = _standing(parts[1:], value)
    if parts[0] == "*":
        return [inner]
    return [inner] if parts[0] == "0" else {parts[0]: inner}


def _joined(one: Any, other: Any) -> Any:
    """Put two results into one, as far as they are of the same kind; the first stays otherwise."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**other, **one, **{name: _joined(one[name], other[name]) for name in one if name in other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_joined(*pair) for pair in zip(one, other, strict=False)]
    return other if one is None else one
