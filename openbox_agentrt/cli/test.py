"""``openbox-agentrt test``: run the tests of a rules file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from ..acel.policy_tests import TestResult, run_policy_test, said_names, unrefused
from ..acel.rulesfile import Rules, read_rules
from ..acel.rulesfile.policy_tests import read_policy_tests
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
    understood = read_rules(rules)
    print_warnings(rules, understood.warnings)
    known = {name for contract in understood.contracts for name in said_names(contract)}
    found = [test for file in (rules, *(tests or ())) for test in read_policy_tests(file, known)]
    if not found:
        files = ", ".join(map(repr, (rules, *(tests or ()))))
        raise InputError(f"there are no tests in {files}; write them under `tests:`, or name their files")
    results = [run_policy_test(understood, test) for test in found]
    print_result(_result(understood, results), _lines(understood, results), as_json=as_json)
    return 1 if any(result.failure is not None for result in results) else 0


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
