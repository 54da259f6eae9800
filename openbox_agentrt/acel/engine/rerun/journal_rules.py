"""The contracts of a journal, built again: what decisions are derived from, and told in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...contracts.base import SessionRule
from ...contracts.identity import forms_hash
from ...contracts.rebuilding import rebuilt
from ...contracts.template import Template
from ...memory.guard import Breach
from ..snapshot.snapshot import SHUT

GONE = -1
"""The place of contracts that are no more."""


class RerunError(ValueError):
    """Steps cannot be followed: one is missing, or is none. What comes after cannot be derived."""


class FollowedRules:
    """
    Hold the contracts in the order in which a journal has them.

    Attributes:
        contracts: The contracts; None for those that are code and cannot be built again.
        texts: What they are called.
    """

    def __init__(self) -> None:
        self.contracts: list[Template | None] = []
        self.texts: list[str] = []
        self._forms: list[Mapping[str, Any]] = []
        self._past: set[str] = set()
        # Calls under way are judged by contracts that are no more, which are called as they were written.
        self._replaced: list[tuple[Template | None, str]] = []

    def put(self, rules: Mapping[str, Any]) -> None:
        """Put other contracts in the place of all there are."""
        pairs = zip(self.contracts, self.texts, strict=True)
        self._past.update(text for contract, text in pairs if contract is not None)
        self._replaced += zip(self.contracts, self.texts, strict=True)
        self._forms = list(rules["contracts"])
        self.contracts = [rebuilt(form) for form in self._forms]
        self.texts = list(rules["texts"])

    def add(self, form: Mapping[str, Any], text: str) -> Template | None:
        """Add a contract; gives it, unless it is code."""
        contract = rebuilt(form)
        self._forms.append(form)
        self.contracts.append(contract)
        self.texts.append(text)
        return contract

    def places_of(self, contracts: Collection[int]) -> set[int]:
        """
        Find the places of contracts, by identity.

        A call that began before the contracts were replaced is judged by the earlier ones. Those that stayed
        have the place of the same contract now; those that did not have the place `GONE`.
        """
        places = {place for place, contract in enumerate(self.contracts) if id(contract) in contracts}
        earlier = {text for contract, text in self._replaced if id(contract) in contracts}
        places |= {place for place, text in enumerate(self.texts) if text in earlier}
        return places | ({GONE} if not earlier <= set(self.texts) else set())

    def known(self, places: Sequence[int] | None = None) -> list[Template]:
        """List the contracts at some places, or at all of them, without those that are code."""
        some = self.contracts if places is None else [self.contracts[place] for place in places]
        return [contract for contract in some if contract is not None]

    def name(self, breach: Breach) -> int | str:
        """Give the place of a contract that is broken, or what a rule of the session is called."""
        if isinstance(breach.contract, SessionRule):
            return breach.contract.spec
        places = (place for place, known in enumerate(self.contracts) if known is breach.contract)
        past = (text for contract, text in self._replaced if contract is breach.contract)
        return next(places, next(past, breach.contract.spec))

    def agree(self, recorded: Sequence[int | str], found: Sequence[int | str]) -> bool:
        """Tell whether what was recorded as broken is what is found to be."""
        # A contract that stayed when others were replaced has a place, and for a call from before its text.
        earlier = {name for name in found if isinstance(name, str)}
        texts = [self.texts[name] if isinstance(name, int) else name for name in recorded]
        told = {text if text in earlier else name for name, text in zip(recorded, texts, strict=True)}
        return told == set(found)

    def is_code(self, name: int | str) -> bool:
        """Tell whether a recorded contract is code, so that nobody can say whether it is broken."""
        if isinstance(name, str):
            return name not in SHUT and name not in self._past
        return self.contracts[name] is None

    def has_halting_code(self, names: Sequence[int | str]) -> bool:
        """Tell whether one of several recorded contracts is code, and halts the session that breaks it."""
        forms = [self._forms[name] for name in names if isinstance(name, int) and self.is_code(name)]
        return any(form["mode"] == "enforce" and form["on_violation"] == "halt" for form in forms)

    def is_of_fleet(self, name: int | str) -> bool:
        """Tell whether a recorded contract counts in a store that many processes share."""
        contract = None if isinstance(name, str) else self.contracts[name]
        return contract is not None and contract.reach.is_fleet

    def words(self, allowed: bool, names: Sequence[int | str]) -> str:
        """Say how a decision went, and what was broken."""
        broken = ", ".join(self.texts[name] if isinstance(name, int) else name for name in names)
        return ("allowed" if allowed else "refused") + (f", breaks {broken}" if broken else "")


def rules_of(says: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """
    Find the rules that a step names among those of its log.

    Raises:
        RerunError: They are not there, or are not those that their hash is of.
    """
    known = rules.get(says["rules"]) if isinstance(says["rules"], str) else None
    if known is None:
        raise RerunError("the rules of the session are not in the log")
    if forms_hash(known["contracts"]) != says["rules"]:
        raise RerunError("the rules of the session are not those that their hash is of")
    return known
