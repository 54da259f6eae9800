"""analyse: findings with their lines, for people, for programs and for code review."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

CIRCLE = (
    "contracts:\n"
    "  - {template: must_precede, args: [a, b], id: ab}\n"
    "  - {template: must_precede, args: [b, a], id: ba}\n"
)


@pytest.fixture
def run(run: Run) -> Run:
    """Run a command with a rules file beside it."""

    def command(*arguments: str, rules: str = CIRCLE) -> tuple[int, str, str]:
        Path("rules.yaml").write_text(rules)
        return run(*arguments)

    return command


def test_findings_are_printed_with_their_lines(run: Run) -> None:
    """A finding begins with the file and the line, and says which trace shows it."""
    code, out, _ = run("analyse", "rules.yaml")

    assert code == 1
    assert "rules.yaml:2: tool-never-allowed: no call of 'b' is ever let through" in out
    assert "    shortest: b() refused by ab" in out


def test_nothing_found_is_no_praise(run: Run) -> None:
    """A clean file ends with 0, and is told how much was searched."""
    code, out, _ = run("analyse", "rules.yaml", rules="contracts: [{template: never, args: [x]}]")

    assert code == 0
    assert out.startswith("nothing found in 1 contracts of rules.yaml, ")
    assert "safe" not in out


def test_json_says_the_same(run: Run) -> None:
    """Findings, what is undecided and what is not analysed are JSON."""
    code, out, _ = run("analyse", "rules.yaml", "--json")

    said = json.loads(out)
    assert code == 1
    assert said["ok"] is False
    assert {finding["id"] for finding in said["findings"]} == {"tool-never-allowed"}
    assert said["findings"][0]["contracts"][0]["line"] == 2


def test_code_review_gets_the_lines(run: Run) -> None:
    """A SARIF log has a result for each finding, at its line."""
    run("analyse", "rules.yaml", "--sarif", "found.sarif")

    log = json.loads(Path("found.sarif").read_text())
    results = log["runs"][0]["results"]
    known = {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    assert log["version"] == "2.1.0"
    assert [r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in results] == [2, 3]
    assert {result["ruleId"] for result in results} <= known


MEANT = (
    "contracts:\n"
    "  - {template: came_from, args: [pay, to], id: known, kwargs: {sources: [{tool: mail, named: true}]},\n"
    "     accept: {source-is-free-text: we write these mails, looks-like-a-pattern: was once}}\n"
)


def test_what_is_meant_is_accepted_with_its_reason(run: Run) -> None:
    """It is shown as accepted and fails nothing, and an acceptance of what is not there is a finding."""
    code, out, _ = run("analyse", "rules.yaml", "--json", rules=MEANT)

    said = json.loads(out)
    assert [(f["id"], f["accepted"]) for f in said["accepted"]] == [
        ("source-is-free-text", "we write these mails")
    ]
    assert [f["id"] for f in said["findings"]] == ["acceptance-unused"]
    assert code == 1
    code, out, _ = run("analyse", "rules.yaml", rules=MEANT.replace(", looks-like-a-pattern: was once", ""))
    assert code == 0
    assert "nothing found and 1 accepted in 1 contracts" in out
    assert "    accepted: we write these mails" in out


def test_what_may_still_be_there_is_not_called_unused(run: Run) -> None:
    """Without the tools that there are, an acceptance of a name of none is not judged."""
    rules = MEANT.replace("looks-like-a-pattern", "pattern-names-no-tool")

    assert run("analyse", "rules.yaml", rules=rules)[0] == 0
    Path("tools.json").write_text('["pay", "mail"]')
    assert run("analyse", "rules.yaml", "--tools", "tools.json", rules=rules)[0] == 1


@pytest.mark.parametrize("accept", ["true", "[tool-never-allowed]", "{tool-never-allowed: ''}", "{a: 1}"])
def test_an_acceptance_needs_a_reason(run: Run, accept: str) -> None:
    """One without is an error that names the place."""
    rules = f"contracts:\n  - {{template: never, args: [x], accept: {accept}}}\n"
    code, _, err = run("analyse", "rules.yaml", rules=rules)

    assert code == 2
    assert "rules.yaml:2" in err
    assert "accept" in err


def test_an_acceptance_changes_no_rule(run: Run) -> None:
    """Rules are the same with it and without."""
    run("analyse", "rules.yaml", rules=MEANT)
    Path("plain.yaml").write_text(MEANT.partition(",\n")[0] + "}\n")

    assert run("diff", "rules.yaml", "plain.yaml", rules=MEANT)[0] == 0


def test_code_review_is_told_what_is_meant(run: Run) -> None:
    """In a SARIF log an accepted result is suppressed, and each result is at a reference to the file."""
    Path("my rules.yaml").write_text(MEANT)
    run("analyse", "my rules.yaml", "--sarif", "found.sarif")

    (ran,) = json.loads(Path("found.sarif").read_text())["runs"]
    listed = [rule["id"] for rule in ran["tool"]["driver"]["rules"]]
    suppressed = {result["ruleId"]: result["suppressions"] for result in ran["results"]}
    for result in ran["results"]:
        (location,) = result["locations"]
        assert listed[result["ruleIndex"]] == result["ruleId"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "my%20rules.yaml"
        assert location["physicalLocation"]["region"]["startLine"] >= 1
        assert result["message"]["text"]
        assert result["level"] in ("none", "note", "warning", "error")
    assert suppressed["acceptance-unused"] == []
    (said,) = suppressed["source-is-free-text"]
    assert said == {"kind": "inSource", "status": "accepted", "justification": "we write these mails"}
    assert ran["invocations"][0]["executionSuccessful"] is True


def test_strict_ends_with_1_where_something_is_open(run: Run) -> None:
    """What is not decided fails a strict check only."""
    rules = "contracts:\n" + "".join(
        f"  - {{template: must_precede, args: [a{n}, a{n + 1}]}}\n" for n in range(400)
    )

    assert run("analyse", "rules.yaml", "--seconds", "0.1", rules=rules)[0] == 0
    code, out, _ = run("analyse", "rules.yaml", "--seconds", "0.1", "--strict", rules=rules)
    assert code == 1
    assert "undecided: " in out


LISTS: dict[str, Any] = {
    "an MCP list": {"tools": [{"name": "a"}, {"name": "b"}]},
    "an MCP answer": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a"}, {"name": "b"}]}},
    "an OpenAI array": [{"type": "function", "function": {"name": name}} for name in "ab"],
    "an OpenAI array of responses": [{"type": "function", "name": name} for name in "ab"],
    "names": ["a", "b"],
}


@pytest.mark.parametrize("listed", LISTS)
def test_tools_come_from_the_lists_that_there_are(run: Run, listed: str) -> None:
    """A name that no tool of the list has is found, whoever made the list."""
    Path("tools.json").write_text(json.dumps(LISTS[listed]))
    rules = "contracts: [{template: never, args: [delte_all]}, {template: never, args: [a]}]"
    code, out, _ = run("analyse", "rules.yaml", "--tools", "tools.json", rules=rules)

    assert code == 1
    assert "'delte_all' a name of none of the 2 tools" in out


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "is not JSON"), ("[]", "holds no tools"), ('{"x": 1}', "must hold a list"), ("[1]", "no name")],
)
def test_a_list_that_is_none_is_an_input_error(run: Run, text: str, problem: str) -> None:
    """It is one line, and the exit code is 2."""
    Path("tools.json").write_text(text)
    code, _, err = run("analyse", "rules.yaml", "--tools", "tools.json")

    assert code == 2
    assert problem in err


def test_validate_warns_of_a_pattern_that_is_in_no_text(run: Run) -> None:
    """What is cheap to tell, validate tells as well."""
    rules = "contracts:\n  - {template: never, args: [{tool: Bash, matches: '$x'}]}\n"
    code, _, err = run("validate", "rules.yaml", rules=rules)

    assert code == 0
    assert "warning: rules.yaml:2: no text contains /$x/" in err
