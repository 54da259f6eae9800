"""
Small random rules: what is said about them, against every sequence of calls that there is, up to a length.

The sequences run on real sessions, each from the beginning, and know nothing of what was searched.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.analysis import Finding, analyse
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

TOOLS = ["a", "b", "c"]
LETTERS = [("a", True), ("b", True), ("c", True), ("a", False), ("b", False)]
LENGTH = 4
SEEDS = (0, 3, 4, 9, 11, 17, 23)


def _contract(random_: random.Random) -> dict[str, Any]:
    one, two = random_.sample(TOOLS, 2)
    n = random_.choice([0, 1, 2])
    args: dict[str, list[Any]] = {
        "must_precede": [one, two],
        "never_after": [one, two],
        "mutually_exclusive": [one, two],
        "alternate_precedence": [one, two],
        "chain_precedence": [one, two],
        "response": [one, two],
        "at_most_n_times": [one, n],
        "existence": [one, n + 1],
        "init": [one],
        "never": [one],
        "required_before_session_end": [one],
    }
    template = random_.choice(sorted(args))
    return {"template": template, "args": args[template]}


def _rules(seed: int) -> Rules:
    random_ = random.Random(seed)
    return parse_rules({"contracts": [_contract(random_) for _ in range(random_.choice([2, 3, 3, 4]))]})


@dataclass
class Facts:
    """What sessions did."""

    allowed: set[str] = field(default_factory=set)
    verdicts: list[tuple[bool, ...]] = field(default_factory=list)
    unmet: list[tuple[str, ...]] = field(default_factory=list)


def _facts(contracts: tuple[Template, ...]) -> Facts:
    facts = Facts()
    for calls in itertools.product(LETTERS, repeat=LENGTH):
        session = Session(contracts=contracts, halt_on_violation=False, trace_window=0, max_trace=0)
        facts.verdicts.append(tuple(_judged(session, calls, facts)))
        facts.unmet.append(tuple(session.unmet()))
    return facts


@functools.cache
def _of(seed: int) -> Facts:
    return _facts(_rules(seed).contracts)


def _judged(session: Session, calls: tuple[tuple[str, bool], ...], facts: Facts) -> Iterator[bool]:
    for tool, succeeds in calls:
        call = session.reserve(tool)
        if call.allowed:
            facts.allowed.add(tool)
            call.commit() if succeeds else call.abort(ran=True)
        yield call.allowed


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_found_holds_for_every_sequence(seed: int) -> None:
    """No sequence contradicts a finding."""
    rules = _rules(seed)
    found = analyse(rules)
    facts = _of(seed)

    assert found.undecided == ()
    for finding in found.findings:
        if finding.kind == "tool-never-allowed":
            assert finding.message.split("'")[1] not in facts.allowed
        elif finding.kind in ("contract-never-decides", "contract-implied-by"):
            place = [contract.spec for contract in rules.contracts].index(finding.contracts[0].spec)
            # Of two that are written alike, either.
            rest = rules.contracts[:place] + rules.contracts[place + 1 :]
            assert _facts(rest).verdicts == facts.verdicts
        elif finding.kind == "obligation-cannot-be-met":
            _never_met(finding, rules, facts)


def _never_met(finding: Finding, rules: Rules, facts: Facts) -> None:
    spec = finding.contracts[0].spec
    if not spec.startswith("response"):
        assert all(any(spec in text for text in unmet) for unmet in facts.unmet)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_never_happens_is_found(seed: int) -> None:
    """A tool that no sequence lets through is banned, or reported."""
    rules = _rules(seed)
    reported = {f.message.split("'")[1] for f in analyse(rules).findings if f.kind == "tool-never-allowed"}
    banned = {
        c.spec.split("(")[1].rstrip(")").split(",")[0]
        for c in rules.contracts
        if c.template == "never" or getattr(c, "n", None) == 0
    }
    named = {
        tool for tool in TOOLS if any(role.selector.on(tool) for c in rules.contracts for role in c.roles)
    }

    assert named - _facts(rules.contracts).allowed <= reported | banned


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_trap_no_sequence_ends_well(seed: int) -> None:
    """Whatever is called after the trace of a trap, something is unmet."""
    rules = _rules(seed)
    for finding in analyse(rules).findings:
        if finding.kind != "session-cannot-end-well":
            continue
        rows = [row for row in finding.witness or () if row.kind == "call"]
        for calls in itertools.product(LETTERS, repeat=3):
            session = Session(contracts=rules.contracts, halt_on_violation=False, trace_window=0)
            for row in rows:
                call = session.reserve(row.tool, row.args)
                call.commit() if row.outcome == "ok" else call.abort(ran=True)
            list(_judged(session, calls, Facts()))
            assert session.unmet()
