"""
Small random rules: what is said about them, against every sequence of calls that there is, up to a length.

The sequences run on real sessions, each from the beginning, and know nothing of what was searched.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel.analysis import (
    Analysis,
    Difference,
    Finding,
    TraceRow,
    analyse,
    compare,
    investigation,
)
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.rulesfile import Rules

from .exhaustive import TOOLS, Letter, Seen, letters_of, random_rules, see

PLAIN = [Letter("a"), Letter("b"), Letter("c"), Letter("a", ends="failed"), Letter("b", ends="failed")]
LENGTH = 6
ENDS = ("obligation-cannot-be-met", "session-cannot-end-well")
OBLIGATIONS = ("response", "existence", "required_before_session_end")
SEEDS = (0, 3, 4, 9, 11)
# Each example is many sessions.
FEW = settings(max_examples=settings().max_examples // 5)


def _rules(seed: int, *, most: int = 4, plain: bool = True) -> Rules:
    return random_rules(random.Random(seed), most=most, plain=plain)


@functools.cache
def _plainly(contracts: tuple[Template, ...]) -> Seen:
    return see(contracts, PLAIN, LENGTH)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_found_holds_for_every_sequence(seed: int) -> None:
    """No sequence of six calls contradicts a finding."""
    rules = _rules(seed)
    found = analyse(rules)

    assert found.undecided == ()
    for finding in found.findings:
        _check(finding, rules, PLAIN, LENGTH)


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

    assert named - _plainly(rules.contracts).allowed <= reported | banned


# What a seed is worth depends on the generator: these make rules that are too many to be searched together.
@pytest.mark.parametrize("seed", [1, 2, 5, 7])
def test_what_is_asked_one_by_one_holds_for_every_sequence(seed: int) -> None:
    """Of many contracts over three tools, each is asked by itself, and what is found is so."""
    rules = _rules(seed, most=14)
    found = analyse(rules)

    for finding in found.findings:
        _check(finding, rules, PLAIN, 4)


@FEW
@given(seed=st.integers(0, 10_000_000))
def test_whatever_the_rules_no_sequence_contradicts(seed: int) -> None:
    """Keys, amounts, patterns, conditions, periods, calls under way: what is found is so, as far as tried."""
    rules = _rules(seed, plain=False, most=3)
    found = analyse(rules)
    letters = letters_of(rules)

    for finding in found.findings:
        _check(finding, rules, letters, _length(letters))


@FEW
@given(seed=st.integers(0, 10_000_000))
def test_where_rules_part_is_found(seed: int) -> None:
    """A sequence that one lets through and the other does not is found, by one that is no longer."""
    old = _rules(seed, plain=False, most=3)
    new = _with(old, (*old.contracts[1:], *_rules(seed + 1, plain=False, most=2).contracts[:1]))
    letters = list(dict.fromkeys((*letters_of(old), *letters_of(new))))
    parted = compare(old, new)
    was, now = (see(side.contracts, letters, _length(letters)) for side in (old, new))

    for path in was.verdicts.keys() & now.verdicts.keys():
        for before, after in zip(was.verdicts[path], now.verdicts[path], strict=True):
            if before is not after:
                _is_as_short(parted, stricter=before, length=len(path) + 1)


@FEW
@given(seed=st.integers(0, 10_000_000))
def test_where_ends_part_is_found(seed: int) -> None:
    """A session that leaves something unmet on one side alone is found, by one that is no longer."""
    old = _rules(seed, plain=False, most=3)
    ends = [c for c in _rules(seed + 1, plain=False, most=9).contracts if c.at_end]
    new = _with(old, (*old.contracts[1:], *ends[:1]))
    letters = list(dict.fromkeys((*letters_of(old), *letters_of(new))))
    parted = compare(old, new)
    called = {change.after.name: change.before.name for change in parted.changes.changed}
    was, now = (see(side.contracts, letters, _length(letters)) for side in (old, new))

    for path in was.unmet.keys() & now.unmet.keys():
        before, after = _broken(old, was.unmet[path], {}), _broken(new, now.unmet[path], called)
        for trace, more in ((parted.owed, after - before), (parted.forgiven, before - after)):
            assert not more or _is_open(parted) or (trace is not None and len(trace) <= len(path) + 1)


@FEW
@given(seed=st.integers(0, 10_000_000))
def test_each_question_alone_finds_what_all_together_do(seed: int) -> None:
    """Asked by as few contracts as it takes, rules come to what a search of all of them says."""
    rules = _rules(seed, plain=False)
    together = analyse(rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(investigation, "_FEW", -1)
        apart = analyse(rules)

    if not together.undecided and not apart.undecided:
        assert _kinds(apart) == _kinds(together)
        # Of several that say the same, only one may be found at a time.
        assert _idle(apart) <= _idle(together)


def _kinds(found: Analysis) -> set[str]:
    """Name the tools that are shut, and say whether a session may not end well."""
    tools = {f.message for f in found.findings if f.kind == "tool-never-allowed"}
    return {*tools, *("end" for finding in found.findings if finding.kind in ENDS)}


def _idle(found: Analysis) -> set[str]:
    """Name the contracts that never decide a call."""
    names = {f.contracts[0].spec for f in found.findings if f.kind.startswith("contract-")}
    return {name for name in names if not name.startswith(OBLIGATIONS)}


def _broken(rules: Rules, unmet: tuple[str, ...], called: dict[str, str]) -> set[str]:
    specs = {c.spec for c in rules.contracts if c.mode == "enforce"}
    return {called.get(spec, spec) for spec in specs if any(spec in text for text in unmet)}


def _is_open(parted: Difference) -> bool:
    return bool(parted.undecided or parted.not_analysed)


def _is_as_short(parted: Difference, *, stricter: bool, length: int) -> None:
    trace = parted.stricter if stricter else parted.looser
    assert _is_open(parted) or (trace is not None and len(trace) <= length)


def _length(letters: Sequence[Letter]) -> int:
    return 4 if len(letters) <= 6 else 3 if len(letters) <= 12 else 2


def _with(rules: Rules, contracts: tuple[Template, ...]) -> Rules:
    return replace(rules, contracts=contracts)


def _check(finding: Finding, rules: Rules, letters: Sequence[Letter], length: int) -> None:
    seen = see(rules.contracts, letters, length)
    if finding.kind == "tool-never-allowed":
        assert finding.message.split("'")[1] not in seen.allowed
    elif finding.kind in ("contract-never-decides", "contract-implied-by"):
        # Of some that are written alike, any.
        places = [p for p, c in enumerate(rules.contracts) if c.spec == finding.contracts[0].spec]
        rests = [rules.contracts[:place] + rules.contracts[place + 1 :] for place in places]
        assert any(see(rest, letters, length).verdicts == seen.verdicts for rest in rests)
    elif finding.kind == "obligation-cannot-be-met":
        _is_never_met(finding, seen)
    elif finding.kind == "session-cannot-end-well":
        after = see(rules.contracts, letters, 3, begin=map(_letter, _calls(finding)))
        assert all(after.unmet.values())


def _is_never_met(finding: Finding, seen: Seen) -> None:
    spec = finding.contracts[0].spec
    if not spec.startswith("response"):
        assert all(any(spec in text for text in unmet) for unmet in seen.unmet.values())


def _calls(finding: Finding) -> list[TraceRow]:
    return [row for row in finding.witness or () if row.kind != "end"]


def _letter(row: TraceRow) -> Letter:
    ends: dict[str, Any] = {"ok": "ok", "failed": "failed", "started": "never"}
    told = (row.result or {}).get("v")
    args = tuple((row.args or {}).items())
    return Letter(row.tool, args, ends[row.outcome], row.seconds, row.until, told)
