"""What a session is told beforehand: its contracts, and what is registered for single tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..contracts.base import TemporalContract
from ..contracts.conditions import collect_checks
from ..contracts.tools import CommitFn, tool_spec
from ..verdict import Verdict
from ..wording import shown
from .engine import Engine


class Contracted(Engine):
    """An engine that is told its contracts and tools one by one. That may go on while calls come."""

    def __init__(self, *args: Any, contracts: Iterable[TemporalContract], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._groups: dict[str, list[TemporalContract]] = {}
        self.add_contracts(contracts)

    def add_contract(self, contract: TemporalContract) -> TemporalContract:
        """
        Watch a contract. It sees the calls from now on.

        Raises:
            TypeError: It is no contract.
            ValueError: It was added before.
        """
        if not isinstance(contract, TemporalContract):
            raise TypeError(f"a contract is needed, got {shown(contract)}")
        self.store.add(contract)
        return contract

    def add_contracts(self, contracts: Iterable[TemporalContract]) -> None:
        """
        Watch several contracts.

        Raises:
            TypeError: It is one contract, or holds something that is none.
        """
        if isinstance(contracts, TemporalContract):
            raise TypeError(f"a collection of contracts is needed, got one contract: {contracts.spec}")
        for contract in contracts:
            self.add_contract(contract)

    def add_contract_group(self, name: str, contracts: Iterable[TemporalContract]) -> list[TemporalContract]:
        """
        Watch several contracts, and remember them under a name.

        Raises:
            ValueError: The name was used before.
        """
        if name in self._groups:
            raise ValueError(f"a contract group named {name!r} was already added to this session")
        group = list(contracts)
        self.add_contracts(group)
        self._groups[name] = group
        return list(group)

    @property
    def contracts(self) -> list[TemporalContract]:
        """Every contract, in the order in which they were added."""
        return list(self.store.contracts)

    @property
    def groups(self) -> dict[str, list[TemporalContract]]:
        """The groups by name."""
        return {name: list(group) for name, group in self._groups.items()}

    def contracts_in_group(self, name: str) -> list[TemporalContract]:
        """
        The contracts of one group.

        Raises:
            KeyError: There is no such group.
        """
        return list(self._groups[name])

    def register_tool(
        self,
        name: str,
        *,
        precondition: Any = None,
        postcondition: Any = None,
        commit: CommitFn | None = None,
    ) -> None:
        """
        Attach conditions and a commit function to a tool, in place of what was attached before.

        Args:
            name: The tool.
            precondition: ``lambda state: ...`` or ``lambda state, args: ...``, a `Check`, or a list of them.
            postcondition: ``lambda state, result: ...``, a `Check`, or a list of them.
            commit: ``lambda state, args, result: ...``, which writes to the state what a good result says.
                If it raises, nothing is written and the call has failed.

        Raises:
            TypeError: One of them is not callable.
        """
        self.store.register(tool_spec(name, precondition, postcondition, commit))

    def register(
        self, func: Callable[..., Any], *, name: str | None = None, commit: CommitFn | None = None
    ) -> Callable[..., Any]:
        """Attach to a tool the conditions that decorators put on its function."""
        tool = name or func.__name__
        before, after = collect_checks(func)
        self.store.register(tool_spec(tool, before, after, commit))
        return func

    def has_conditions(self, tool: str) -> bool:
        """Whether something is attached to a tool."""
        return self.store.plan(tool).spec is not None

    def verdict(self, contract: TemporalContract) -> Verdict:
        """How a contract of this session stands."""
        return self.store.verdict_of(contract)
