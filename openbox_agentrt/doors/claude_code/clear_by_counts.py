"""
Calls that no contract can refuse, told from how often each tool was called and nothing else.

Most calls are well within the limits and have what they need. What a contract says of them by the name of
the tool alone is compiled to comparisons of counts, which are kept with the rules: the hook that makes them
needs no engine. They err on one side. Too many calls are counted where a contract limits or excludes, whether
they left its window or never ran, and too few where it needs one that succeeded; so a yes is certain, and
anything else is for the engine to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    from openbox_agentrt.acel.contracts.declaration import Role
    from openbox_agentrt.acel.contracts.rules import Cell, Guard, Rule
    from openbox_agentrt.acel.contracts.template import Template

    Comparison: TypeAlias = dict[str, Any]
    """Of the tools in "of": "fewer" calls than so many began, or so many are "done"."""

# What is remembered of a call by its being made: nothing of its arguments, and nothing of its result.
_NOTED = ("tally", "stamps", "marks", "tokens")
_COUNTED = ("tally", "stamps")


def is_clear(comparisons: Sequence[Comparison], begun: Mapping[str, int], done: Mapping[str, int]) -> bool:
    """Tell whether a call is certain to be let through, by the counts of its session."""
    return all(
        sum(begun.get(tool, 0) for tool in each["of"]) < each["fewer"]
        if "fewer" in each
        else sum(done.get(tool, 0) for tool in each["of"]) >= each["done"]
        for each in comparisons
    )


def clear_tools(contracts: Sequence[Template], names: Sequence[str]) -> dict[str, list[Comparison]]:
    """
    Compile contracts to comparisons of counts.

    Args:
        contracts: The contracts.
        names: All tools that they are about, none of them a pattern.

    Returns:
        What has to hold for a call of a tool to be let through for certain. A tool is left out whose calls
        depend on anything else, or are remembered by more than their number.
    """
    if not all(map(str.isascii, names)):
        # Names in other letters can be written in several ways, and each would be counted by itself.
        return {}
    watched = {watch.tool for contract in contracts for watch in contract.watches}
    found = {tool: _comparisons(tool, contracts, names) for tool in names if tool not in watched}
    return {tool: comparisons for tool, comparisons in found.items() if comparisons is not None}


def guarding_roles(contract: Template) -> list[Role]:
    """
    List the roles of a contract without which a call is certain to be let through.

    A call that only has others is remembered, as a prerequisite is, and the log is memory enough for that.
    """
    roles = contract.roles
    if contract.when is not None or contract.watches or contract.reach.is_fleet:
        return list(roles)
    alone = [contract.rule_for(tuple(each is role for each in roles)) for role in roles]
    guarding = [role for role, rule in zip(roles, alone, strict=True) if not _is_only_noted(contract, rule)]
    for decided in product(*([False] if role in guarding else [False, True] for role in roles)):
        if not _is_only_noted(contract, contract.rule_for(decided)):
            return list(roles)
    return guarding


def _is_only_noted(contract: Template, rule: Rule) -> bool:
    """Tell whether nothing is asked of a call, and its being made is all that is remembered."""
    keyed = contract.key is not None
    noted = all(move.cell.kind in _NOTED and not (keyed and move.strict) for move in rule.moves)
    return noted and not rule.guards


def _comparisons(tool: str, contracts: Sequence[Template], names: Sequence[str]) -> list[Comparison] | None:
    comparisons = []
    for contract in contracts:
        rules = list(_rules_of(contract, tool))
        if not any(rule.guards or rule.moves for rule in rules):
            continue
        if len(rules) > 1 or not _is_counted(contract, rules[0]):
            return None
        for guard in rules[0].guards:
            comparison = _comparison(guard, contract, names)
            if comparison is None:
                return None
            comparisons.append(comparison)
    return comparisons


def _is_counted(contract: Template, rule: Rule) -> bool:
    """Tell whether the number of calls is all that a contract remembers of this one."""
    plain = contract.key is None and contract.when is None and not contract.reach.is_fleet
    return plain and all(move.cell.kind in _NOTED for move in rule.moves)


def _comparison(guard: Guard, contract: Template, names: Sequence[str]) -> Comparison | None:
    cell = guard.cell
    if cell is None or cell.kind not in _COUNTED:
        return None
    if guard.kind in ("cap", "ban"):
        most = int(guard.n) if guard.kind == "cap" else 1
        return {"fewer": most, "of": [name for name in names if any(_moves(contract, name, cell))]}
    if guard.kind == "need" and cell.kind == "tally" and cell.per is None:
        return {"done": int(guard.n), "of": [name for name in names if all(_moves(contract, name, cell))]}
    return None


def _moves(contract: Template, tool: str, cell: Cell) -> Iterator[bool]:
    """Say of each reading of a call of a tool whether it counts in a cell."""
    for rule in _rules_of(contract, tool):
        yield any(move.cell == cell for move in rule.moves)


def _rules_of(contract: Template, tool: str) -> Iterator[Rule]:
    """List what a contract may mean for a call of a tool, whatever its arguments are."""
    hits = [role.selector.on(tool, strict=role.strict) for role in contract.roles]
    for decided in product(*([hit] if isinstance(hit, bool) else [False, True] for hit in hits)):
        yield contract.rule_for(decided)
