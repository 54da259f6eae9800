"""The two policies: each clause has a conversation that keeps it and one that breaks it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.policy_test_run import run_policy_test, unrefused
from openbox_agentrt.acel.rulesfile import Rules, read_rules
from openbox_agentrt.acel.rulesfile.policy_tests import PolicyTest, read_policy_tests
from openbox_agentrt.cli import main

FOLDER = Path(__file__).parents[2] / "examples" / "policies"
CLAUSES = {"airline": 21, "retail": 19}
BEYOND = {"airline": {12, 16}, "retail": set[int]()}
"""What a call cannot show, see docs/policies.md."""

SIDE_BY_SIDE = {"airline": "2-one-call-at-a-time", "retail": "4-one-call-at-a-time"}


def read(name: str) -> tuple[Rules, tuple[PolicyTest, ...]]:
    rules = read_rules(FOLDER / f"{name}.yaml")
    known = {contract.id for contract in rules.contracts if contract.id}
    return rules, read_policy_tests(FOLDER / f"{name}.tests.yaml", known)


CASES = [(rules, test) for rules, tests in map(read, CLAUSES) for test in tests]


def number(text: str) -> int:
    found = re.match(r"(\d+)[ -]", text)
    assert found is not None, text
    return int(found[1])


@pytest.mark.parametrize(
    ("rules", "test"), CASES, ids=[f"{Path(test.file).stem}-{test.name}" for _, test in CASES]
)
def test_a_conversation(rules: Rules, test: PolicyTest) -> None:
    """It is let through where it keeps the policy, and refused by the clause that it breaks."""
    assert run_policy_test(rules, test).failure is None


@pytest.mark.parametrize("name", CLAUSES)
def test_each_clause_is_kept_once_and_broken_once(name: str) -> None:
    """All but those that a call cannot show; calls side by side are below."""
    rules, tests = read(name)
    said = {number(str(contract.id)) for contract in rules.contracts}
    kept = {number(test.name) for test in tests if " kept" in test.name}
    broken = {number(test.name) for test in tests if " broken" in test.name}

    assert said == set(range(1, CLAUSES[name] + 1)) - BEYOND[name]
    assert kept == said
    assert broken == said - {number(SIDE_BY_SIDE[name])}
    for test in tests:
        refused = {by for call in test.calls for by in call.by}
        assert (number(test.name) in map(number, refused)) is (" broken" in test.name), test.name


@pytest.mark.parametrize("name", CLAUSES)
def test_without_a_contract_a_conversation_that_breaks_it_passes(name: str) -> None:
    """So that none of them is there for nothing."""
    rules, tests = read(name)
    never_broken = set(unrefused(rules, [run_policy_test(rules, test) for test in tests]))

    assert never_broken <= {SIDE_BY_SIDE[name], "6-one-transfer"}


@pytest.mark.parametrize(("name", "contract"), SIDE_BY_SIDE.items())
def test_two_calls_side_by_side(name: str, contract: str) -> None:
    """The second waits for the first."""
    session = Session.from_rules(FOLDER / f"{name}.yaml")
    first = session.reserve("think")
    second = session.reserve("calculate")

    assert second.refusal is not None
    assert [broken.id for broken in second.refusal.broken] == [contract]
    first.commit()
    assert session.reserve("calculate").allowed


@pytest.mark.parametrize("name", CLAUSES)
def test_nothing_is_odd_about_them(name: str) -> None:
    """Strictly, as the command line has it."""
    assert main(["validate", str(FOLDER / f"{name}.yaml"), "--strict"]) == 0


def test_the_page_prints_what_the_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    """And counts the clauses."""
    page = (FOLDER.parents[1] / "docs" / "policies.md").read_text(encoding="utf-8")
    for name, clauses in CLAUSES.items():
        assert main(["test", str(FOLDER / f"{name}.yaml"), str(FOLDER / f"{name}.tests.yaml")]) == 0
        assert capsys.readouterr().out in page
        assert f": {clauses - len(BEYOND[name])} of {clauses}\n" in page
