"""``openbox-agentrt test``: run the tests of a rules file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from ..acel.policy_test_run import TestResult, run_policy_test, said_names, unrefused
from ..acel.rulesfile import Document, Rules, read_document, rules_of
from ..acel.rulesfile.policy_tests import PolicyTest, policy_tests_of, read_policy_tests
from .options import AsJson, RulesArgument
from .running import InputError
from .text import print_result, print_warnings

app = typer.Typer(add_completion=False)


@app.command(name="test")
def run_tests(
    rules: RulesArgument,
    tests: Annotated[
        list[str] | None,
        typer.Argument(help="Files with further tests, beside those of the rules file.", metavar="TESTS..."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run the tests of rules: calls, and what is expected of each. No tool is called."""
    document = read_document(rules)
    understood = rules_of(document)
    print_warnings(rules, understood.warnings)
    found = read_all_tests(understood, document, tests or ())
    if not found:
        files = ", ".join(map(repr, (rules, *(tests or ()))))
        raise InputError(f"there are no tests in {files}; write them under `tests:`, or name their files")
    results = [run_policy_test(understood, test) for test in found]
    print_result(_result(understood, results), _lines(understood, results), as_json=as_json)
    return 1 if any(result.failure is not None for result in results) else 0


def read_all_tests(rules: Rules, document: Document, files: Iterable[str]) -> list[PolicyTest]:
    """
    Read the tests of rules: those of their own file, and those of further files.

    Raises:
        ConfigError: If a test is not understood, or a file cannot be read.
    """
    known = {name for contract in rules.contracts for name in said_names(contract)}
    others = (test for file in files for test in read_policy_tests(file, known))
    return [*policy_tests_of(document, known), *others]


def _lines(rules: Rules, results: Sequence[TestResult]) -> Iterator[str]:
    failed = [result for result in results if result.failure is not None]
    for result in failed:
        assert result.failure is not None
        line = result.failure.line or result.test.line
        place = result.test.file if line is None else f"{result.test.file}:{line}"
        yield f"{place}: {result.test.name}: {result.failure.problem}"
    yield f"{'FAIL' if failed else 'OK'} — {len(results) - len(failed)} of {len(results)} tests passed."
    left = unrefused(rules, results)
    if left:
        yield f"no test breaks {', '.join(left)}"


def _result(rules: Rules, results: Sequence[TestResult]) -> dict[str, Any]:
    return {
        "ok": all(result.failure is None for result in results),
        "tests": [
            {
                "name": result.test.name,
                "file": result.test.file,
                "line": result.test.line if result.failure is None else result.failure.line,
                "problem": None if result.failure is None else result.failure.problem,
            }
            for result in results
        ],
        "not_broken": unrefused(rules, results),
    }
