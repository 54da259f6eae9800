"""The parts of a rules file: which contract stands where, with groups put in their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from ..contracts.fact_spec import facts_from
from ..contracts.shapes import Field, Place, SpecError, check_kind, kind_of, shaped, written
from ..contracts.spec import build_contract, tools_in
from ..contracts.template import Template
from ..match.matchers import names_any
from .document import Document

Placed: TypeAlias = tuple[Place, Any]
"""Where a contract stands, and what stands there."""


_RULES: dict[str, Field] = {
    "$schema": Field("text"),
    "description": Field("text"),
    "allow_empty": Field("flag"),
    "only": Field("list"),
    "unknown_tools": Field("text", among=("allow", "refuse")),
    "state": Field("mapping"),
    "initial_state": Field("mapping"),
    "facts": Field("list"),
    "groups": Field("mapping"),
    "contracts": Field("list"),
    "tests": Field("list"),
}
_GROUP = {"group": Field("text", required=True)}
_ACCEPT = "accept"


class Parts:
    """
    A document, taken apart.

    Attributes:
        document: The document.
        said: What stands under each of its names.
        facts: What calls tell the session.
        groups: The contracts of each group, used or not.
        contracts: All contracts in their order, groups put in their places.
        accepted: Of the place of a contract, the findings that are meant there, each with the reason.
        uses: The group that each entry of ``contracts`` names, if it names one.

    Raises:
        ConfigError: If it is no rules file, or names a group that it does not have.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.uses: list[tuple[Place, str]] = []
        self.accepted: dict[Place, dict[str, str]] = {}
        try:
            self.said = shaped(document.data, _RULES, ())
            self.facts = facts_from(self.said.get("facts", []), ("facts",))
            self.groups = dict(self._find_groups())
            self.contracts = list(self._expand())
            self.contracts += self._only()
        except SpecError as error:
            raise document.error(error) from error

    @property
    def state(self) -> dict[str, Any]:
        """The state that a session begins with. ``initial_state`` is its old name."""
        return dict(self.said.get("state", self.said.get("initial_state", {})))

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

    def _only(self) -> Iterator[Placed]:
        """Write what the file says about other tools as the contract that it is."""
        tools, refuses = self.said.get("only"), self.said.get("unknown_tools") == "refuse"
        if tools is not None and refuses:
            raise SpecError("'only' says already which tools there are", ("unknown_tools",))
        if tools is not None:
            place: Place = ("only",)
            if not tools:
                raise SpecError("there are no tools, so that nothing is allowed", place)
            yield place, {"template": "only", "args": [{"any_of": tools}]}
        elif refuses:
            place = ("unknown_tools",)
            # In the order in which they are named, each once.
            named = dict.fromkeys(name for _, spec in self.contracts for name in _names_of(spec))
            if not named:
                raise SpecError("the file names no tool, so that nothing is allowed", place)
            yield place, {"template": "only", "args": [{"any_of": list(named)}]}

    def _find_groups(self) -> Iterator[tuple[str, list[Placed]]]:
        for name, specs in self.said.get("groups", {}).items():
            place: Place = ("groups", name)
            if not isinstance(specs, list):
                # As acel-core writes it.
                raise SpecError(f"{written(place)} must be a list, got {kind_of(specs)}", place, where="")
            places = [(*place, index) for index in range(len(specs))]
            yield name, [(at, self._told(spec, at)) for at, spec in zip(places, specs, strict=True)]

    def _expand(self) -> Iterator[Placed]:
        for index, spec in enumerate(self.said.get("contracts", [])):
            place: Place = ("contracts", index)
            if not isinstance(spec, dict) or "group" not in spec:
                yield place, self._told(spec, place)
                continue
            name = shaped(spec, _GROUP, place)["group"]
            if name not in self.groups:
                declared = ", ".join(sorted(self.groups)) or "none"
                problem = f"unknown group {name!r:.80}, declared are: {declared:.200}"
                raise SpecError(problem, (*place, "group"), where=written(place))
            self.uses.append((place, name))
            yield from self.groups[name]

    def _told(self, spec: Any, place: Place) -> Any:
        """Note what is accepted of a contract, and give it the facts that its conditions may read."""
        if isinstance(spec, dict) and _ACCEPT in spec:
            self.accepted[place] = dict(_reasons(spec[_ACCEPT], (*place, _ACCEPT)))
            spec = {name: value for name, value in spec.items() if name != _ACCEPT}
        if not self.facts or not isinstance(spec, dict) or not _has_condition(spec):
            return spec
        own = spec.get("facts") or []
        return {**spec, "facts": [*own, *self.said["facts"]]} if isinstance(own, list) else spec


def _reasons(given: Any, place: Place) -> Iterator[tuple[str, str]]:
    check_kind(given, "mapping", place)
    for finding, reason in given.items():
        if not isinstance(finding, str) or not isinstance(reason, str) or not reason.strip():
            raise SpecError("must give a reason for each finding", place, where=written(place))
        yield finding, reason


def _has_condition(spec: dict[Any, Any]) -> bool:
    kwargs = spec.get("kwargs")
    return (
        spec.get("template") == "requires"
        or "when" in spec
        or (isinstance(kwargs, dict) and "when" in kwargs)
    )


def _names_of(spec: Any) -> Iterator[str]:
    # What is no contract is found when it is built.
    try:
        yield from (name for _, name in tools_in(spec) if not names_any(name))
    except (TypeError, KeyError, AttributeError):
        return
