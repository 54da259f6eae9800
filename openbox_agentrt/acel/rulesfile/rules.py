"""A rules file, understood: initial state, contracts, groups, and what is odd about it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..condition.fact import Fact
from ..contracts.identity import rules_hash
from ..contracts.shapes import Place, SpecError, written
from ..contracts.template import Template
from .document import Document, Format, parse_document, read_document
from .errors import ConfigError
from .oddities import RulesWarning, oddities
from .parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    A rules file, understood.

    Attributes:
        name: The file, or None.
        description: What it is for, as it says itself.
        state: Initial state of a session.
        contracts: The contracts, groups put in their places.
        facts: What calls tell a session, for the conditions of the contracts.
        groups: The contracts of each group, as instances of their own.
        accepted: Of each contract, the findings of `analyse` that are meant, each with the reason.
        warnings: What is odd.
        rules_hash: Hash of the contracts and the initial state, equal for equal rules.
        contracts_hash: Hash of the contracts alone, by which the steps of a session know them.
    """

    name: str | None
    description: str | None
    state: dict[str, Any]
    contracts: tuple[Template, ...]
    facts: tuple[Fact, ...]
    groups: dict[str, tuple[Template, ...]]
    accepted: tuple[Mapping[str, str], ...]
    warnings: tuple[RulesWarning, ...]
    rules_hash: str
    contracts_hash: str

    @property
    def hashes(self) -> tuple[str, ...]:
        """The hashes by which a log may know these rules, the present one first."""
        return tuple(dict.fromkeys((self.rules_hash, self.contracts_hash)))


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """
    Read a rules file strictly.

    Raises:
        ConfigError: If anything in it is not understood, or if it has no contracts and does not say
            ``allow_empty: true``.
    """
    return rules_of(read_document(path))


def contract_lines(document: Document) -> tuple[int | None, ...]:
    """
    Find the line of each contract of a rules file, in the order of `Rules.contracts`; None where unknown.

    Raises:
        ConfigError: If its parts are not understood.
    """
    return tuple(document.line_of(place) for place, _ in Parts(document).contracts)


def parse_rules(text: str | Mapping[str, Any], *, format: Format = "yaml", name: str | None = None) -> Rules:
    """
    Read the text of a rules file strictly, or the data that such a file holds.

    Raises:
        ConfigError: See `read_rules`.
    """
    if isinstance(text, Mapping):
        return rules_of(Document(data=dict(text), name=name))
    return rules_of(parse_document(text, format=format, name=name))


def rules_of(document: Document) -> Rules:
    """
    Understand a rules file that was read.

    Raises:
        ConfigError: See `read_rules`.
    """
    parts = Parts(document)
    groups = {name: tuple(parts.build(placed)) for name, placed in parts.groups.items()}
    contracts = parts.build(parts.contracts)
    if not contracts and not parts.said.get("allow_empty"):
        problem = "there are no contracts; if that is meant, say allow_empty: true"
        raise ConfigError(problem, path=document.name, line=document.line_of(("contracts",)))
    try:
        _check_ids(contracts, [place for place, _ in parts.contracts])
    except SpecError as error:
        raise document.error(error) from error
    return Rules(
        name=document.name,
        description=parts.said.get("description"),
        state=parts.state,
        contracts=tuple(contracts),
        facts=parts.facts,
        groups=groups,
        accepted=tuple(parts.accepted.get(place, {}) for place, _ in parts.contracts),
        warnings=tuple(oddities(parts, contracts)),
        rules_hash=rules_hash(contracts, parts.state),
        contracts_hash=rules_hash(contracts),
    )


def _check_ids(contracts: Sequence[Template], places: Sequence[Place]) -> None:
    seen: dict[str, Place] = {}
    for contract, place in zip(contracts, places, strict=True):
        # A group that is used twice is one place, and its contracts keep their ids.
        first = place if contract.id is None else seen.setdefault(contract.id, place)
        if first != place:
            problem = f"id {contract.id!r:.80} is that of {written(first)} already"
            raise SpecError(problem, (*place, "id"), where=written(place))
