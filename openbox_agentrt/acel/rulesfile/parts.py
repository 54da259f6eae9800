"""The parts of a rules file: which contract stands where, with groups put in their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from ..contracts.shapes import Place, SpecError, kind_of, shaped, written
from ..contracts.spec import build_contract
from ..contracts.template import Template
from .document import Document

__all__ = ("GroupShape", "Parts", "Placed", "RulesShape")

Placed: TypeAlias = tuple[Place, Any]
"""Where a contract stands, and what stands there."""


class RulesShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A rules file as a whole."""

    schema: str | None = msgspec.field(name="$schema", default=None)
    description: str | None = None
    allow_empty: bool = False
    state: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    initial_state: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    groups: dict[str, Any] = {}
    contracts: list[Any] = []


class GroupShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A group in the place of a contract."""

    group: str


class Parts:
    """
    A document, taken apart.

    Attributes:
        document: The document.
        shape: What it says as a whole.
        groups: The contracts of each group, used or not.
        contracts: All contracts in their order, groups put in their places.
        uses: The group that each entry of ``contracts`` names, if it names one.

    Raises:
        ConfigError: If it is no rules file, or names a group that it does not have.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.uses: list[tuple[Place, str]] = []
        try:
            self.shape = shaped(document.data, RulesShape, ())
            self.groups = dict(self._find_groups())
            self.contracts = list(self._expand())
        except SpecError as error:
            raise document.error(error) from error

    @property
    def state(self) -> dict[str, Any]:
        """The initial state. ``initial_state`` is its old name."""
        shape = self.shape
        state = shape.initial_state if shape.state is msgspec.UNSET else shape.state
        return {} if isinstance(state, msgspec.UnsetType) else dict(state)

    @property
    def has_two_states(self) -> bool:
        """True if the state stands there under its old name too."""
        return msgspec.UNSET not in (self.shape.state, self.shape.initial_state)

    def build(self, placed: list[Placed]) -> list[Template]:
        """
        Build contracts of this document, as instances of their own each time.

        Raises:
            ConfigError: If one is not understood.
        """
        try:
            return [build_contract(spec, place=place) for place, spec in placed]
        except SpecError as error:
            raise self.document.error(error) from error

    def _find_groups(self) -> Iterator[tuple[str, list[Placed]]]:
        for name, specs in self.shape.groups.items():
            place: Place = ("groups", name)
            if not isinstance(specs, list):
                # As acel-core writes it.
                raise SpecError(f"{written(place)} must be a list, got {kind_of(specs)}", place, where="")
            yield name, [((*place, index), spec) for index, spec in enumerate(specs)]

    def _expand(self) -> Iterator[Placed]:
        for index, spec in enumerate(self.shape.contracts):
            place: Place = ("contracts", index)
            if not isinstance(spec, dict) or "group" not in spec:
                yield place, spec
                continue
            name = shaped(spec, GroupShape, place).group
            if name not in self.groups:
                declared = ", ".join(sorted(self.groups)) or "none"
                problem = f"unknown group {name!r:.80}, declared are: {declared:.200}"
                raise SpecError(problem, (*place, "group"), where=written(place))
            self.uses.append((place, name))
            yield from self.groups[name]
