"""Contracts about tools that a loop does not have: a misspelt name is a rule that never bites."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from agent_rt import AgentLoop, Toolbase, ToolRegistry

from .._run.report_answers import RUN_STARTED
from ..acel.contracts.declaration import Declaration
from ..acel.events import ASSISTANT_TEXT, RUN_ENDED
from ..errors import OptionError
from ..lifecycle_events import LLM_ACTIVITY, USER_PROMPT
from .stand_in import unwrap

if TYPE_CHECKING:
    from ..acel.contracts.base import TemporalContract

log = logging.getLogger(__name__)

EVENTS = frozenset({RUN_STARTED, RUN_ENDED, USER_PROMPT, LLM_ACTIVITY, ASSISTANT_TEXT})
"""What contracts may name besides tools."""


class ContractTools:
    """
    Compare the tools that contracts name with those that loops have.

    Contracts of a session hold over all of its loops, so a tool of a loop that was looked at before is known.
    """

    def __init__(self, contracts: Iterable[TemporalContract]) -> None:
        self._named = dict(_named(contracts))
        self._known: set[str] = set()

    def replace(self, contracts: Iterable[TemporalContract]) -> None:
        """Compare the tools of other contracts from now on, those of the loops so far at once."""
        self._named = dict(_named(contracts))
        if self._known:
            self._say(strict=False)

    def check(self, loop: AgentLoop, *, strict: bool) -> None:
        """
        Warn of each tool that contracts name and that no loop has so far, once.

        Nothing is said about a loop without a registry, whose tools nobody can list.

        Raises:
            OptionError: `strict`, and there is such a tool.
        """
        tools = tools_of(loop)
        if tools is None:
            return
        self._known |= tools
        self._say(strict=strict)

    def _say(self, *, strict: bool) -> None:
        for tool, spec in list(self._named.items()):
            if tool in self._known or tool in EVENTS:
                continue
            nearest = next(iter(get_close_matches(tool, self._known, n=1)), None)
            problem = f"names the tool {tool!r} in {spec!r:.200}, which the registry does not have"
            if strict:
                raise OptionError("contracts", problem, nearest=nearest)
            del self._named[tool]
            hint = "" if nearest is None else f"; did you mean {nearest!r}"
            log.warning("option 'contracts' %s%s", problem, hint)


def tools_of(loop: AgentLoop) -> set[str] | None:
    """List the names of the tools of a loop, loaded or not; None without a registry."""
    registry: Any = unwrap(loop.tool_registry)
    if isinstance(registry, Toolbase):
        registry = unwrap(registry.registry)
    if registry is None:
        return None
    if not isinstance(registry, ToolRegistry):
        return {definition.name for definition in registry.definitions()}
    listed = {tool.name for tool in registry.list(include_disabled=True)}
    return {*listed, *registry.deferred_names(include_disabled=True)}


def _named(contracts: Iterable[TemporalContract]) -> Iterator[tuple[str, str]]:
    for contract in contracts:
        if isinstance(contract, Declaration):
            for role in contract.roles:
                yield from ((name, contract.spec) for name in sorted(role.selector.names or ()))
            yield from ((watch.tool, contract.spec) for watch in contract.watches)
