"""The contracts of a session: which there are, what is attached to tools, and how they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ..contracts.base import TemporalContract
from ..engine.plan.rule_set import RuleSet, shared_rules
from ..wording import shown

if TYPE_CHECKING:
    from ..contracts.tools import CommitFn
    from ..engine.engine import Engine
    from ..verdict import Verdict


@runtime_checkable
class HasContracts(Protocol):
    """Rules that were read from a file, or anything else with a tuple of contracts."""

    @property
    def contracts(self) -> tuple[TemporalContract, ...]: ...


class SessionContracts:
    """Hold the contracts of a session, and what is attached to its tools."""

    __slots__ = ("_groups",)

    _engine: Engine

    def __init__(self) -> None:
        self._groups: dict[str, list[TemporalContract]] = {}

    def add_contract(self, contract: TemporalContract) -> TemporalContract:
        """
        Watch a contract, which sees the calls from now on.

        Raises:
            TypeError: It is no contract.
            ValueError: It was added before.
        """
        self._engine.add(contract)
        return contract

    def add_contracts(self, contracts: Iterable[TemporalContract]) -> None:
        """
        Watch several contracts, each as `add_contract` does.

        Raises:
            TypeError: It is one contract, or holds something that is none.
        """
        for contract in _several(contracts):
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

    def replace_contracts(self, contracts: Iterable[TemporalContract] | HasContracts) -> None:
        """
        Put other contracts in force in place of all there are, groups included, in one step.

        Calls from now on are judged by them. What they count under the same name - the same kind of memory of
        the same calls, key and window; limits are not part of it - they go on with, and what no contract
        counts any more is forgotten. A call under way ends by the contracts that it began by. State stays.

        Raises:
            TypeError: It holds something that is no contract. Nothing has changed.
            ValueError: It holds a contract twice. Nothing has changed.
        """
        now = self._engine.store.book.rules
        self._engine.replace(compiled(contracts, alone=now.alone, default_scope=now.default_scope))
        self._groups = {}

    @property
    def contracts(self) -> list[TemporalContract]:
        """List every contract, in the order in which they were added."""
        return list(self._engine.store.contracts)

    @property
    def groups(self) -> dict[str, list[TemporalContract]]:
        """List the groups by name."""
        return {name: list(group) for name, group in self._groups.items()}

    def contracts_in_group(self, name: str) -> list[TemporalContract]:
        """
        List the contracts of one group.

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
        from ..contracts.tools import tool_spec

        self._engine.store.book.register(tool_spec(name, precondition, postcondition, commit))

    def register(
        self, func: Callable[..., Any], *, name: str | None = None, commit: CommitFn | None = None
    ) -> Callable[..., Any]:
        """Attach to a tool the conditions that decorators put on its function."""
        from ..contracts.conditions import collect_checks
        from ..contracts.tools import tool_spec

        tool = name or func.__name__
        before, after = collect_checks(func)
        self._engine.store.book.register(tool_spec(tool, before, after, commit))
        return func

    def verdict(self, contract: TemporalContract) -> Verdict:
        """Tell how a contract of this session stands. A durable one is taken first, see `end_session`."""
        self._engine.take()
        return self._engine.store.verdict_of(contract)

    def has_conditions(self, tool: str) -> bool:
        """Tell whether something is attached to a tool."""
        return self._engine.store.book.spec(tool) is not None

    def unmet(self) -> list[str]:
        """List the contracts that `end_session` would report now. A durable one is taken first, as there."""
        self._engine.take()
        return [breach.contract.spec for breach in self._engine.store.unmet()]


def _several(contracts: Iterable[TemporalContract]) -> Iterable[TemporalContract]:
    if isinstance(contracts, TemporalContract):
        raise TypeError(f"a collection of contracts is needed, got one contract: {contracts.spec}")
    if isinstance(contracts, str):
        raise TypeError(
            f"a collection of contracts is needed, got {shown(contracts)}; Session.from_rules reads a file"
        )
    return contracts


def compiled(
    contracts: Iterable[TemporalContract] | HasContracts | RuleSet,
    *,
    alone: bool,
    default_scope: Literal["run", "session"] | None = None,
) -> RuleSet:
    """Compile contracts. See `RuleSet` for what their scopes mean then."""
    if type(contracts) is tuple:  # first: asking a protocol takes longer than opening a session
        return shared_rules(contracts, alone=alone, default_scope=default_scope)
    if isinstance(contracts, RuleSet):
        return contracts
    if isinstance(contracts, HasContracts):
        return shared_rules(tuple(contracts.contracts), alone=alone, default_scope=default_scope)
    return RuleSet(_several(contracts), alone=alone, default_scope=default_scope)
