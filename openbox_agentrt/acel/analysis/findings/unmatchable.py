"""Find what can be told of rules without trying a call: names and patterns that nothing can match."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches

from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ...events import LIFECYCLE
from ...match.matchers import is_glob, name_matches
from ...match.names import normal_name
from ...rulesfile.never_match import unlikely_names
from ..budget import Budget
from ..named import Named
from ..patterns.automaton import UnknownPatternError, of_pattern
from ..patterns.shortest_texts import combinations
from ..rules.analysable import patterns_of
from ..rules.found_values import sources_of
from ..rules.tool_names import tools_in
from .finding import Finding

__all__ = ("inspected", "matches_nothing")


def inspected(
    contracts: Sequence[TemporalContract],
    named: Sequence[Named],
    tools: Collection[str] | None,
    budget: Budget,
) -> Iterator[Finding]:
    """
    Inspect contracts one by one, against the tools that there are where those are known.

    Once the budget is spent, no more patterns are looked into.
    """
    for contract, name in zip(contracts, named, strict=True):
        if not isinstance(contract, Declaration):
            continue
        yield from _odd_names(contract, name)
        for message in () if budget.late else matches_nothing(contract):
            yield Finding(
                kind="matcher-matches-nothing",
                message=message,
                contracts=(name,),
                witness=None,
                advice="an anchor holds at the ends of the text only: ^ begins a pattern and $ ends it",
            )
        yield from _free_texts(contract, name)
        if tools is not None:
            yield from _unknown_names(contract, name, tools)
            yield from _unknown_facts(contract, name, tools)


def matches_nothing(contract: Declaration) -> Iterator[str]:
    """Say of each pattern of a contract that is in no text what it does not match."""
    for role in contract.roles:
        for _, pattern, field in patterns_of(role.selector.form()):
            if _is_in_no_text(pattern):
                yield f"no text contains /{pattern}/, so it matches no {field}"


@functools.lru_cache(maxsize=4096)
def _is_in_no_text(pattern: str) -> bool:
    try:
        found = combinations([of_pattern(pattern)])
    except UnknownPatternError:
        return False
    return found.whole and not any(hit for (hit,) in found.texts)


def _odd_names(contract: Declaration, name: Named) -> Iterator[Finding]:
    for _, message in unlikely_names(dict.fromkeys(_names(contract), ())):
        yield Finding(
            kind="looks-like-a-pattern",
            message=message.partition(": ")[0],
            contracts=(name,),
            witness=None,
            advice=message.partition(": ")[2],
        )


def _free_texts(contract: Declaration, name: Named) -> Iterator[Finding]:
    """Find the sources that are texts which somebody else may have written, and not the user."""
    for source in sources_of(contract):
        if source.named and not source.given:
            yield Finding(
                kind="source-is-free-text",
                message=f"whoever writes the text vouches for any value: {source.described()}",
                contracts=(name,),
                witness=None,
                advice="name a field that holds the value alone, or the prompt; or leave it if you write it",
            )


def _unknown_names(contract: Declaration, name: Named, tools: Collection[str]) -> Iterator[Finding]:
    known = {normal_name(tool) for tool in (*tools, *LIFECYCLE)}
    for tool in dict.fromkeys(_names(contract)):
        if any(name_matches(tool, one) for one in known):
            continue
        near = get_close_matches(tool.replace("*", ""), known, n=1)
        what = "a name of none" if not is_glob(tool) else "fits none"
        yield Finding(
            kind="pattern-names-no-tool",
            message=f"{tool!r} {what} of the {len(tools)} tools",
            contracts=(name,),
            witness=None,
            advice=f"did you mean {near[0]!r}?" if near else "name a tool of the list",
        )


def _unknown_facts(contract: Declaration, name: Named, tools: Collection[str]) -> Iterator[Finding]:
    """Find the facts that conditions read and that no tool tells, so that they are never known."""
    known = {normal_name(tool) for tool in (*tools, *LIFECYCLE)}
    for fact in contract.facts:
        if not known.intersection(fact.tools):
            near = [name for tool in fact.tools for name in get_close_matches(tool, known, n=1)]
            told_by = ", ".join(map(repr, fact.tools))
            yield Finding(
                kind="fact-is-never-known",
                message=f"none of the {len(tools)} tools tells facts.{fact.name}, which {told_by} would",
                contracts=(name,),
                witness=None,
                advice=f"did you mean {near[0]!r}?" if near else "let a tool of the list tell it",
            )


def _names(contract: Declaration) -> Iterable[str]:
    if contract.template == "only":
        # Its second role is the events of a run.
        return tools_in(contract.roles[0].selector.form())
    return (name for role in contract.roles for name in tools_in(role.selector.form()))
