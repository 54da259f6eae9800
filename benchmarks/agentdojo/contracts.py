"""The contracts of a trace, as a session of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

from openbox_agentrt import acel
from openbox_agentrt.acel.config import contracts_from_rules, load_rules

from .mandate import RECORDED, SAID, Mandate, conditions, has_effect, learned, mandate
from .suites import rules_file, tool_schemas

Which = Literal["rules", "request", "both"]
"""The suite's rules file, what follows from the user's request, or the two together."""


def session(name: str, which: Which, request: str | None = None) -> acel.Session:
    """
    A new session under contract.

    Args:
        name: The suite.
        which: Which contracts.
        request: What the user asks for. Needed unless `which` is ``rules``.

    Raises:
        ValueError: There is no request to read contracts out of.
    """
    under = acel.Session(state={RECORDED: [], SAID: []})
    if which != "request":
        under.add_contracts(contracts_from_rules(rules(name)))
    if which != "rules":
        if request is None:
            raise ValueError("without a request, there are no contracts that follow from it")
        _add_request(under, name, mandate(request, tool_schemas(name)))
    return under


def session_of_run(name: str) -> acel.Session:
    """
    As `session` with both sets, for a governed run: the request is read when the run's prompt is accepted.

    Until then, no tool with an effect may be called.
    """
    under = session(name, "rules")
    unknown = acel.Check(lambda state: False, "what the user asks for is known")
    for tool in tool_schemas(name):
        if has_effect(tool.name):
            under.register_tool(tool.name, precondition=unknown)

    def read_request(state: acel.StateStore, args: dict[str, Any], result: Any) -> None:
        _add_request(under, name, mandate(args["prompt"], tool_schemas(name)))

    under.register_tool("user_prompt", commit=read_request)
    return under


@cache
def rules(name: str) -> Mapping[str, Any]:
    """The suite's rules file."""
    loaded: Mapping[str, Any] = load_rules(rules_file(name))
    return loaded


def _add_request(under: acel.Session, name: str, the_mandate: Mandate) -> None:
    under.add_contracts(
        acel.at_most_n_times(
            tool,
            0,
            id=f"not-asked-for:{tool}",
            description="The request does not ask for this.",
            remedy="Ask the user before doing it.",
        )
        for tool in sorted(the_mandate.banned)
    )
    for tool in tool_schemas(name):
        under.register_tool(
            tool.name,
            # It stands in the place of what refused while the request was not known yet.
            precondition=[
                acel.Check(lambda state: True, "what the user asks for is known"),
                *(acel.Check(one.holds, one.description) for one in conditions(the_mandate, tool)),
            ],
            commit=_commit(the_mandate, tool.name),
        )


def _commit(the_mandate: Mandate, tool: str) -> Callable[[acel.StateStore, dict[str, Any], Any], None]:
    def commit(state: acel.StateStore, args: dict[str, Any], result: Any) -> None:
        names, said = learned(the_mandate, tool, args, result)
        if names:
            state.set(RECORDED, [*state.get(RECORDED), *names])
        if said:
            state.set(SAID, [*state.get(SAID), *said])

    return commit
