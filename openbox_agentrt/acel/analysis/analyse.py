"""Analyse rules: search what sessions under them can do, as far as there is time, and say what is odd."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..contracts.base import TemporalContract
from ..contracts.declaration import Declaration
from ..rulesfile import Rules
from ..rulesfile.policy_tests import PolicyTest
from .budget import Budget
from .findings.accepted import told_apart, unused
from .findings.finding import KINDS, Analysis, Finding
from .findings.unmatchable import inspected
from .investigation import Investigation
from .named import Named, name_of
from .questions.searched import Subject
from .questions.shown_by_tests import Examples, examples_of
from .rules.analysable import why_unknown
from .rules.subject import surroundings_of
from .search.trace_row import TraceRow

__all__ = ("MAX_STATES", "analyse", "deciding", "named_contracts")

MAX_STATES = 200_000


def analyse(
    rules: Rules | Sequence[TemporalContract],
    *,
    tools: Collection[str] | None = None,
    lines: Sequence[int | None] = (),
    tests: Sequence[PolicyTest] = (),
    seconds: float = 10.0,
    states: int = MAX_STATES,
) -> Analysis:
    """
    Find what is probably not meant in rules, each with a shortest trace that shows it.

    Calls are made one after another. What was not decided in the time, or is not analysed, is named; nothing
    is ever called safe.

    Args:
        rules: The rules, or contracts.
        tools: The names of the tools that there are, if they are known.
        lines: The lines of the contracts in their file.
        tests: Tests of the rules. What they show to be possible is not searched.
        seconds: How much processor time is searched; five times as long pass at most.
        states: How many states of sessions are searched.
    """
    budget = Budget(seconds, states)
    every = list(rules.contracts if isinstance(rules, Rules) else rules)
    named = named_contracts(every, lines)
    unknown = {place: why for place, contract in enumerate(every) if (why := why_unknown(contract))}
    known = [c for p, c in enumerate(every) if p not in unknown and isinstance(c, Declaration)]
    subject = Subject(
        known,
        [name for place, name in enumerate(named) if place not in unknown],
        every,
        rules.state if isinstance(rules, Rules) else {},
        examples=examples_of(rules, tests) if isinstance(rules, Rules) else Examples(),
        surroundings=surroundings_of(every),
    )
    findings = list(inspected(every, named, tools, budget))
    work = Investigation(subject, budget, tools or ())
    # Of a pattern that is in no text, all is said.
    said = {f.contracts for f in findings if f.kind == "matcher-matches-nothing"}
    findings += [f for f in work.findings() if f.contracts[:1] not in said]
    undecided = (*work.left.said(), *subject.unshown)
    accepted = rules.accepted if isinstance(rules, Rules) else ()
    findings, meant = told_apart(findings, named, accepted)
    whole = not undecided and not unknown
    findings += unused(meant, named, accepted, whole=whole, tools=tools is not None)
    return Analysis(
        findings=tuple(_in_order(findings)),
        accepted=tuple(_in_order(meant)),
        decided=len(known) - len(work.left.open),
        undecided=undecided,
        not_analysed=tuple(f"{named[place]}: {why}" for place, why in unknown.items()),
        states=work.states,
    )


def _in_order(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (KINDS.index(finding.kind), finding.line or 0))


def named_contracts(contracts: Sequence[TemporalContract], lines: Sequence[int | None]) -> list[Named]:
    """Name contracts as reports do, by their ids where they have some."""
    known = [*lines, *[None] * (len(contracts) - len(lines))]
    return [
        Named(name=name_of(contract), spec=contract.spec, line=line)
        for contract, line in zip(contracts, known, strict=True)
    ]


def deciding(
    contracts: Sequence[TemporalContract], one: TemporalContract, state: Mapping[str, Any], budget: Budget
) -> tuple[bool | None, Sequence[TraceRow]]:
    """
    Ask whether one of some contracts ever decides.

    Returns:
        Whether it does, None if that was not decided; and a trace to whose last row it alone objects, if one
        was found. It need not be a shortest one.
    """
    known = [c for c in contracts if isinstance(c, Declaration) and why_unknown(c) is None]
    named = named_contracts(known, ())
    subject = Subject(known, named, contracts, state, surroundings=surroundings_of(contracts))
    questions, place = Investigation(subject, budget, ()).questions, known.index(one)  # type: ignore[arg-type]
    answer = questions.decides(place, budget.part(2), quick=True)
    if answer.possible is None and not budget.spent:
        answer = questions.decides(place, budget)
    return answer.possible, subject.deciding.get(place, ())
