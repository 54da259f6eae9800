"""Take from tests of rules what they show by themselves, so that no search has to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...policy_test_run import run_policy_test
from ...rulesfile import Rules
from ...rulesfile.policy_tests import PolicyTest

__all__ = ("Examples", "examples_of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """
    Hold what sessions of all contracts have shown to be possible.

    Attributes:
        let: The tools of which a call was let through.
        decided: The contracts that alone refused a call, or were unmet at an end, by name.
    """

    let: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()


def examples_of(rules: Rules, tests: Iterable[PolicyTest]) -> Examples:
    """Run tests, and see what they show; whether it is as they expect does not matter."""
    results = [run_policy_test(rules, test) for test in tests]
    return Examples(
        let=frozenset().union(*(result.let for result in results)),
        decided=frozenset().union(*(result.decided for result in results)),
    )
