"""Findings that are meant: the rules file says so beside the contract, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..named import Named
from .finding import Finding

__all__ = ("told_apart", "unused")

Accepted = Sequence[Mapping[str, str]]
"""Of each contract, the kinds of findings that are meant, each with the reason."""

# What no search is needed for, and no list of tools.
_INSPECTED = frozenset({"matcher-matches-nothing", "looks-like-a-pattern", "source-is-free-text"})
_OF_TOOLS = frozenset({"pattern-names-no-tool", "fact-is-never-known"})


def told_apart(
    findings: Iterable[Finding], named: Sequence[Named], accepted: Accepted
) -> tuple[list[Finding], list[Finding]]:
    """Give the findings that are not accepted, and those that are, with the reasons."""
    left: list[Finding] = []
    meant: list[Finding] = []
    for finding in findings:
        reason = next((of[finding.kind] for of in _of(finding, named, accepted) if finding.kind in of), None)
        if reason is None:
            left.append(finding)
        else:
            meant.append(replace(finding, accepted=reason))
    return left, meant


def unused(
    meant: Collection[Finding], named: Sequence[Named], accepted: Accepted, *, whole: bool, tools: bool
) -> Iterator[Finding]:
    """
    Find what is accepted and was not found.

    Args:
        meant: The findings that were accepted.
        named: The contracts.
        accepted: What is accepted of each.
        whole: Whether everything was decided. Else what needs a search may be there all the same.
        tools: Whether the tools that there are were known.
    """
    for name, of in zip(named, accepted, strict=False):
        for kind, reason in of.items():
            used = any(f.kind == kind and any(c is name for c in f.contracts) for f in meant)
            known = kind in _INSPECTED or (tools if kind in _OF_TOOLS else whole)
            if known and not used:
                yield Finding(
                    kind="acceptance-unused",
                    message=f"{kind!r:.60} is accepted, and is not found ({reason})",
                    contracts=(name,),
                    witness=None,
                    advice="take it out of accept: what it was for is gone, or it is misspelt",
                )


def _of(finding: Finding, named: Sequence[Named], accepted: Accepted) -> Iterator[Mapping[str, str]]:
    for name, of in zip(named, accepted, strict=False):
        if any(contract is name for contract in finding.contracts):
            yield of
