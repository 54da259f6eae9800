"""Things in a rules file that are allowed and probably not meant."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..contracts.identity import meaning_of
from ..contracts.shapes import Place, written
from ..contracts.spec import tools_in
from ..contracts.template import Template
from ..match.matchers import is_glob
from ..match.odd_names import suspicious_names
from .never_match import Oddity, empty_options, unlikely_names, unlikely_paths, unset_entries
from .parts import Parts

_ONLY: Place = ("only",)
_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesWarning:
    """
    Something in a rules file that is allowed and probably not meant.

    Attributes:
        message: The oddity, in one line.
        line: Where, if known.
    """

    message: str
    line: int | None = None

    def within(self, name: str | None) -> str:
        """Write it in one line, with the name of the file and the line."""
        place = ":".join(str(part) for part in (name, self.line) if part is not None)
        return f"{place}: {self.message}" if place else self.message


def oddities(parts: Parts, contracts: Sequence[Template]) -> Iterator[RulesWarning]:
    """Find what is odd about the parts of a rules file and the contracts that were built of them."""
    if {"state", "initial_state"} <= parts.said.keys():
        message = "'initial_state' is ignored, because there is 'state' too"
        yield _warning(parts, message, ("initial_state",))
    yield from _groups(parts)
    yield from _doubles(parts, contracts)
    names = _names(parts)
    yield from (_warning(parts, report.describe(), names[report.name]) for report in suspicious_names(names))
    yield from (_warning(parts, message, place) for place, message in _toothless(parts, names))
    yield from (_warning(parts, message, place) for place, message in _unread(parts, contracts))
    yield from (_warning(parts, message, place) for place, message in _barred(parts, contracts, names))
    for contract, (place, _) in zip(contracts, parts.contracts, strict=True):
        yield from (_warning(parts, message, place) for message in _outlived(contract))


def _outlived(contract: Template) -> Iterator[str]:
    """Find a window that is longer than what it is about can last, and a key that every process shares."""
    within = getattr(contract, "window_seconds", contract.within) or 0
    per, scope = contract.reach.per, contract.reach.scope or "session"
    most = {"run": _DAY, "session": _DAY + 1, "fleet": math.inf}[scope]
    seconds = {None: within, "hour": 3600, "day": _DAY, "week": 7 * _DAY, "month": 28 * _DAY}[per]
    if seconds >= most:
        lasts = "a run is over before that" if scope == "run" else "a session ends after a day without a run"
        yield f"{contract.spec} counts for longer than it can remember: {lasts}, and scope: fleet remembers"


def _groups(parts: Parts) -> Iterator[RulesWarning]:
    used: set[str] = set()
    for place, name in parts.uses:
        if name in used:
            yield _warning(parts, f"group {name!r} is used twice", place)
        used.add(name)
    for name, specs in parts.groups.items():
        if name not in used or not specs:
            why = "is never used" if specs else "is empty"
            yield _warning(parts, f"group {name!r} {why}", ("groups", name))


def _doubles(parts: Parts, contracts: Sequence[Template]) -> Iterator[RulesWarning]:
    seen: dict[str, Place] = {}
    for contract, (place, _) in zip(contracts, parts.contracts, strict=True):
        # However it is written, and whatever people are told about it.
        meant = {**meaning_of(contract), **dict.fromkeys(("id", "severity", "on_violation"))}
        first = seen.setdefault(json.dumps(meant, sort_keys=True), place)
        if first is not place:
            message = f"{written(place)} says the same as {written(first)}: {contract.spec}"
            yield _warning(parts, message, place)


def _names(parts: Parts) -> dict[str, Place]:
    names: dict[str, Place] = {}
    for place, spec in parts.contracts:
        for _, name in tools_in(spec):
            names.setdefault(name, place)
    for index, fact in enumerate(parts.facts):
        for name in fact.tools:
            names.setdefault(name, ("facts", index))
    return names


def _unread(parts: Parts, contracts: Sequence[Template]) -> Iterator[Oddity]:
    read = {fact.name for contract in contracts for fact in contract.facts}
    for index, fact in enumerate(parts.facts):
        if fact.name not in read:
            yield ("facts", index), f"fact {fact.name!r} is read by no condition"


def _toothless(parts: Parts, names: dict[str, Place]) -> Iterator[Oddity]:
    yield from unlikely_names(names)
    for place, spec in dict(parts.contracts).items():
        yield from unlikely_paths(spec, place)
        yield from empty_options(spec, place)
        yield from unset_entries(spec, place, parts.state)


def _barred(parts: Parts, contracts: Sequence[Template], names: dict[str, Place]) -> Iterator[Oddity]:
    """Find the tools of contracts that the file does not allow anyway."""
    if "only" not in parts.said:
        return
    (only,) = (
        contract for contract, (place, _) in zip(contracts, parts.contracts, strict=True) if place == _ONLY
    )
    for name, place in names.items():
        if place != _ONLY and not is_glob(name) and not any(role.selector.on(name) for role in only.roles):
            yield place, f"tool {name!r} is not among those of 'only'"


def _warning(parts: Parts, message: str, place: Place) -> RulesWarning:
    return RulesWarning(message=message, line=parts.document.line_of(place))
