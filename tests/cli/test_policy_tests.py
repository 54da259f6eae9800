"""test: rules have tests like code, and a test that proves nothing is no test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbox_agentrt.cli import main
from tests.cli.conftest import Run

RULES = """\
state: {open: true}
contracts:
  - {template: must_precede, args: [verify, refund], id: verified, key: customer}
  - {template: at_most_total, args: [refund, amount, 500], id: cap}
  - {template: rate_limit, args: [refund, 1, 60], id: rate}
  - {template: response, args: [refund, notify], id: told}
  - {template: requires_state, args: [refund, open, true], id: open}
tests:
"""
GOOD = """\
  - name: a refund after verification
    calls:
      - {tool: verify, args: {customer: c-1}}
      - {tool: refund, args: {customer: c-1, amount: 500}}
    at_end: [told]
  - name: another customer
    calls:
      - {tool: verify, args: {customer: c-1}}
      - {tool: refund, args: {customer: c-2, amount: 5}, expect: refused, by: verified}
    at_end: []
  - name: too much, and later the rest
    calls:
      - {tool: verify, args: {customer: c-1}}
      - {tool: refund, args: {customer: c-1, amount: 501}, expect: refused, by: [cap]}
      - {tool: refund, args: {customer: c-1, amount: 1}, at: 0}
      - {tool: refund, args: {customer: c-1, amount: 1}, at: 60, expect: refused, by: rate}
      - {tool: refund, args: {customer: c-1, amount: 1}, at: 61}
"""


@pytest.fixture
def run(run: Run) -> Run:
    """Run the tests of a rules file, and give the exit code, output and errors."""

    def command(tests: str, *arguments: str) -> tuple[int, str, str]:
        Path("rules.yaml").write_text(RULES + tests)
        return run("test", "rules.yaml", *arguments)

    return command


def test_tests_that_hold_pass(run: Run) -> None:
    """They are counted, and a contract that none of them breaks is named."""
    code, out, _ = run(GOOD)

    assert code == 0
    assert out.splitlines() == ["OK — 3 of 3 tests passed.", "no test breaks open"]


WRONG = {
    "a refusal that does not come": (
        "      - {tool: notify, expect: refused}\n",
        "notify is allowed, and expected to be refused",
    ),
    "a call that is refused on the way": (
        "      - {tool: refund, args: {customer: c-1, amount: 1}}\n",
        "refund is refused by verified, and expected to be allowed",
    ),
    "another contract": (
        "      - {tool: refund, args: {customer: c-1, amount: 1}, expect: refused, by: cap}\n",
        "refund breaks verified, and not cap",
    ),
    "a prerequisite that failed": (
        "      - {tool: verify, args: {customer: c-1}, outcome: failed}\n"
        "      - {tool: refund, args: {customer: c-1, amount: 1}}\n",
        "refund is refused by verified, and expected to be allowed",
    ),
    "a result that says that it failed": (
        "      - {tool: verify, args: {customer: c-1}, result: {isError: true}}\n"
        "      - {tool: refund, args: {customer: c-1, amount: 1}}\n",
        "refund is refused by verified, and expected to be allowed",
    ),
    "something unmet": (
        "      - {tool: verify, args: {customer: c-1}}\n"
        "      - {tool: refund, args: {customer: c-1, amount: 1}}\n"
        "    at_end: []\n",
        "at the end told is unmet",
    ),
    "something met": ("      - {tool: notify}\n    at_end: [told]\n", "at the end told is met"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_test_that_does_not_hold_fails_at_its_line(run: Run, wrong: str) -> None:
    """The file, the line, the name and what was not as expected are one line."""
    calls, problem = WRONG[wrong]
    code, out, _ = run(f"  - name: wrong\n    calls:\n{calls}")

    assert code == 1
    first, second, *_ = out.splitlines()
    assert first.startswith("rules.yaml:")
    assert f": wrong: {problem}" in first
    assert second == "FAIL — 0 of 1 tests passed."


BAD = {
    "an unknown contract": (
        "  - {name: x, calls: [{tool: a, expect: refused, by: capp}]}\n",
        "did you mean 'cap'",
    ),
    "an unknown key": ("  - {name: x, calls: [{tool: a, expects: refused}]}\n", "unknown key 'expects'"),
    "another word": (
        "  - {name: x, calls: [{tool: a, expect: denied}]}\n",
        "must be one of allowed",
    ),
    "no expectation": ("  - {name: x, calls: []}\n", "expects nothing"),
    "a name twice": ("  - {name: x, calls: [{tool: a}]}\n  - {name: x, calls: [{tool: a}]}\n", "already"),
    "no test": ("  []\n", "there are no tests"),
    "no name": ("  - {calls: [{tool: a}]}\n", "has no 'name'"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_not_understood_is_an_input_error(run: Run, bad: str) -> None:
    """It is one line, and the exit code is 2."""
    tests, problem = BAD[bad]
    code, _, err = run(tests)

    assert code == 2
    assert problem in err


def test_tests_may_stand_beside_the_rules(run: Run) -> None:
    """A file with tests only is read as strictly."""
    Path("more.yaml").write_text("tests: [{name: more, calls: [{tool: notify}]}]\n")
    Path("none.yaml").write_text("test: []\n")

    assert run(GOOD, "more.yaml")[1].startswith("OK — 4 of 4")
    assert run(GOOD, "none.yaml")[0] == 2


def test_json_says_the_same(run: Run) -> None:
    """Each test has its result, with the problem and its line."""
    code, out, _ = run(GOOD + "  - {name: wrong, calls: [{tool: notify, expect: refused}]}\n", "--json")

    said = json.loads(out)
    assert code == 1
    assert said["ok"] is False
    assert [test["problem"] is None for test in said["tests"]] == [True, True, True, False]
    assert said["not_broken"] == ["open"]


def test_rules_with_tests_are_rules(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Other commands pass the tests over, and the rules are the same rules."""
    run(GOOD)

    assert main(["validate", "rules.yaml", "--strict"]) == 0


def test_what_a_file_says_with_only_goes_by_that_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no id, and its text names every tool there is."""
    path = tmp_path / "only.yaml"
    path.write_text(
        "only: [find, refund]\ncontracts: [{template: must_precede, args: [find, refund]}]\n"
        "tests:\n  - name: no other tool\n    calls: [{tool: wipe, expect: refused, by: only}]\n"
        "  - name: not this one\n    calls: [{tool: refund, expect: refused, by: only}]\n"
    )
    assert main(["test", str(path)]) == 1
    out = capsys.readouterr().out
    assert "refund breaks must_precede(find, refund), and not only" in out
    assert "1 of 2 tests passed" in out
