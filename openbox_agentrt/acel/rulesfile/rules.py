"""A rules file, understood: initial state, contracts, groups, and what is odd about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..contracts.registry import rules_hash
from ..contracts.template import Template
from ..match.names import suspicious_names
from .building import build, tools_in
from .document import Document, Format, parse_document, read_document
from .errors import ConfigError
from .positions import Place, written
from .shapes import GroupShape, RulesShape, shaped

__all__ = (
    "LoadedRules",
    "Rules",
    "RulesWarning",
    "as_document",
    "expand",
    "groups_in",
    "parse_rules",
    "read_rules",
    "state_in",
    "understand",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesWarning:
    """
    Something in a rules file that is allowed and probably not meant.

    Attributes:
        message: What it is.
        line: Where, if known.
    """

    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    A rules file, understood.

    Attributes:
        name: The file, or None.
        description: What it is for, as it says itself.
        state: Initial state of a session.
        contracts: The contracts, groups put in their places.
        groups: The contracts of each group, as instances of their own.
        warnings: What is odd.
        rules_hash: Hash of the contracts, equal for equal rules.
    """

    name: str | None
    description: str | None
    state: dict[str, Any]
    contracts: tuple[Template, ...]
    groups: dict[str, tuple[Template, ...]]
    warnings: tuple[RulesWarning, ...]
    rules_hash: str


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """
    Read a rules file strictly.

    Raises:
        ConfigError: If anything in it is not understood, or if it has no contracts and does not say
            ``allow_empty: true``.
    """
    return understand(read_document(path))


def parse_rules(text: str, *, format: Format = "yaml", name: str | None = None) -> Rules:
    """
    The same for a text.

    Raises:
        ConfigError: See `read_rules`.
    """
    return understand(parse_document(text, format=format, name=name))


def understand(document: Document) -> Rules:
    """
    What a document says.

    Raises:
        ConfigError: See `read_rules`.
    """
    shape = shaped(document.data, RulesShape, document, ())
    groups = {
        name: tuple(build(spec, document, place) for place, spec in specs)
        for name, specs in groups_in(document, shape).items()
    }
    places = list(expand(document, shape))
    contracts = tuple(build(spec, document, place) for place, spec in places)
    if not contracts and not shape.allow_empty:
        problem = "there are no contracts; if that is meant, say allow_empty: true"
        raise ConfigError(problem, path=document.name, line=document.line_of(("contracts",)))
    _check_ids(contracts, [place for place, _ in places], document)
    return Rules(
        name=document.name,
        description=shape.description,
        state=state_in(shape),
        contracts=contracts,
        groups=groups,
        warnings=tuple(_warnings(document, shape, contracts, places)),
        rules_hash=rules_hash(contracts),
    )


def state_in(shape: RulesShape) -> dict[str, Any]:
    """The initial state. ``initial_state`` is its old name."""
    state = shape.initial_state if isinstance(shape.state, msgspec.UnsetType) else shape.state
    return {} if isinstance(state, msgspec.UnsetType) else dict(state)


def groups_in(document: Document, shape: RulesShape) -> dict[str, list[tuple[Place, Any]]]:
    """The places of the contracts in each group, and what stands there."""
    found: dict[str, list[tuple[Place, Any]]] = {}
    for name, specs in shape.groups.items():
        place: Place = ("groups", name)
        if not isinstance(specs, list):
            raise ConfigError(
                f"{written(place)} must be a list, got {type(specs).__name__}",
                path=document.name,
                line=document.line_of(place),
            )
        found[name] = [((*place, index), spec) for index, spec in enumerate(specs)]
    return found


def expand(document: Document, shape: RulesShape) -> Iterator[tuple[Place, Any]]:
    """The places of all contracts, with groups put in their places, and what stands there."""
    groups = groups_in(document, shape)
    for index, spec in enumerate(shape.contracts):
        place: Place = ("contracts", index)
        if not isinstance(spec, dict) or "group" not in spec:
            yield place, spec
            continue
        name = shaped(spec, GroupShape, document, place).group
        if name not in groups:
            declared = ", ".join(sorted(groups)) or "none"
            raise ConfigError(
                f"unknown group {name!r:.80}, declared are: {declared:.200}",
                path=document.name,
                line=document.line_of((*place, "group")),
                where=written(place),
            )
        yield from groups[name]


def _check_ids(contracts: tuple[Template, ...], places: list[Place], document: Document) -> None:
    seen: dict[str, Place] = {}
    for contract, place in zip(contracts, places, strict=True):
        if contract.id is None:
            continue
        # A group that is used twice is one place, and its contracts keep their ids.
        first = seen.setdefault(contract.id, place)
        if first != place:
            raise ConfigError(
                f"id {contract.id!r:.80} is that of {written(first)} already",
                path=document.name,
                line=document.line_of((*place, "id")),
                where=written(place),
            )


def _warnings(
    document: Document,
    shape: RulesShape,
    contracts: tuple[Template, ...],
    places: list[tuple[Place, Any]],
) -> Iterator[RulesWarning]:
    if not isinstance(shape.state, msgspec.UnsetType) and not isinstance(
        shape.initial_state, msgspec.UnsetType
    ):
        yield RulesWarning(
            message="'initial_state' is ignored, because there is 'state' too",
            line=document.line_of(("initial_state",)),
        )
    used = {place[1] for place, _ in places if place[0] == "groups"}
    for name, specs in shape.groups.items():
        if name not in used:
            why = "is never used" if specs else "is empty"
            yield RulesWarning(message=f"group {name!r} {why}", line=document.line_of(("groups", name)))
    yield from _doubles(document, contracts, places)
    tools: dict[str, int | None] = {}
    for place, spec in places:
        for _, name in tools_in(spec):
            tools.setdefault(name, document.line_of(place))
    for report in suspicious_names(tools):
        yield RulesWarning(message=report.describe(), line=tools[report.name])


def _doubles(
    document: Document, contracts: tuple[Template, ...], places: list[tuple[Place, Any]]
) -> Iterator[RulesWarning]:
    seen: dict[tuple[str, str], Place] = {}
    for contract, (place, _) in zip(contracts, places, strict=True):
        first = seen.setdefault((contract.spec, contract.mode), place)
        if first is not place:
            yield RulesWarning(
                message=f"{written(place)} says the same as {written(first)}: {contract.spec}",
                line=document.line_of(place),
            )


def as_document(rules: Mapping[str, Any]) -> Document:
    """Rules that were made in Python, or loaded before, as a document."""
    if isinstance(rules, LoadedRules):
        return Document(
            data=dict(rules), name=rules.document.name, text=rules.document.text, lines=rules.document.lines
        )
    return Document(data=dict(rules))


class LoadedRules(dict[str, Any]):
    """A rules file as a plain mapping that still knows its lines."""

    def __init__(self, document: Document) -> None:
        super().__init__(document.data)
        self.document = document
