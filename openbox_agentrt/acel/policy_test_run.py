"""Run the tests of rules, each in a session of its own, with the engine that will be in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .contracts.exclusion import Only
from .memory.clock import SetClock
from .outcome import outcome_of
from .reservation import Reservation
from .rulesfile import Rules
from .rulesfile.policy_tests import PolicyTest, TestCall
from .session import Session, engine_of

# A test begins at a time of its own, so that it comes to the same on every day.
_START = 1_700_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTest:
    """
    Something that was not as a test expects.

    Attributes:
        problem: What, in one line.
        line: Where the expectation stands.
    """

    problem: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """
    Tell how a test of rules ended.

    Attributes:
        test: The test.
        failure: The first thing that was not as it expects; None if it passed.
        broken: The contracts that its calls broke, or that were unmet at its end.
        let: The tools of which a call was let through.
        decided: The contracts that were the only one in force to refuse a call, or to be unmet at the end.
    """

    __test__ = False  # it is no class of tests, whatever its name makes of it

    test: PolicyTest
    failure: FailedTest | None
    broken: frozenset[str]
    let: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()


class _Run:
    """One test, in a session."""

    def __init__(self, rules: Rules, test: PolicyTest) -> None:
        self._test = test
        self._clock = SetClock(_START)
        self._session = Session.from_rules(
            rules,
            state=test.state,
            subject=test.subject,
            halt_on_violation=False,
            clock=self._clock,
            # A test is a world of its own.
            fleet="alone",
        )
        self._names = {contract.spec: said_names(contract) for contract in rules.contracts}
        self.broken: set[str] = set()
        self.let: set[str] = set()
        self.decided: set[str] = set()

    def failures(self) -> Iterator[FailedTest]:
        """Make the calls, and say what is not as expected."""
        for call in self._test.calls:
            problem = self._call(call)
            if problem is not None:
                yield FailedTest(problem=problem, line=call.line)
        owed = [breach.contract for breach in engine_of(self._session).store.unmet()]
        unmet = {name for contract in owed for name in said_names(contract)}
        self._note_decided([said_names(contract)[0] for contract in owed if contract.mode == "enforce"])
        self.broken |= unmet
        problem = self._at_end(unmet)
        if problem is not None:
            yield FailedTest(problem=problem, line=self._test.line)

    def _call(self, call: TestCall) -> str | None:
        if call.at is not None:
            self._clock.now = max(self._clock.now, _START + call.at)
        made = self._session.reserve(call.tool, call.args)
        broken = {
            name
            for violation in made.violations
            for name in (violation.id, violation.spec, *self._names.get(violation.spec, ())[1:])
            if name
        }
        self.broken |= broken
        if made.allowed:
            self.let.add(call.tool)
            self._settle(made, call)
        else:
            enforced = [v.id or v.spec for v in made.violations if v.mode == "enforce"]
            self._note_decided(enforced)
        got = "allowed" if made.allowed else "refused"
        by = sorted({violation.id or violation.spec for violation in made.violations})
        if got != call.expect:
            why = f" by {', '.join(by)}" if by else ""
            return f"{call.tool} is {got}{why}, and expected to be {call.expect}"
        missing = [name for name in call.by if name not in broken]
        if missing:
            return f"{call.tool} breaks {', '.join(by) or 'nothing'}, and not {', '.join(missing)}"
        return None

    def _note_decided(self, names: Sequence[str]) -> None:
        self.decided |= set(names) if len(names) == 1 else set()

    @staticmethod
    def _settle(made: Reservation, call: TestCall) -> None:
        if call.succeeds and outcome_of(call.result) == "ok":
            made.commit(call.result)
        else:
            made.abort(ran=True)

    def _at_end(self, unmet: set[str]) -> str | None:
        if self._test.at_end is None:
            return None
        expected = self._test.at_end
        missing = [name for name in expected if name not in unmet]
        more = sorted(name for name in unmet if name not in expected and self._is_name(name, expected))
        if missing:
            return f"at the end {', '.join(missing)} is met, and expected to be unmet"
        return f"at the end {', '.join(more)} is unmet" if more else None

    def _is_name(self, name: str, expected: Sequence[str]) -> bool:
        """Tell whether a contract that is unmet goes by this name, and by none that is expected."""
        for contract in self._session.contracts:
            names = said_names(contract)
            if name in names:
                return name == names[0] and not set(names) & set(expected)
        return False


def run_policy_test(rules: Rules, test: PolicyTest) -> TestResult:
    """Run one test in a session of its own, as far as to the first thing that is not as it expects."""
    run = _Run(rules, test)
    failure = next(run.failures(), None)
    return TestResult(
        test=test,
        failure=failure,
        broken=frozenset(run.broken),
        let=frozenset(run.let),
        decided=frozenset(run.decided),
    )


def unrefused(rules: Rules, results: Sequence[TestResult]) -> list[str]:
    """List the contracts that no test breaks: a change of them would go unnoticed."""
    broken = frozenset().union(*(result.broken for result in results))
    return [names[0] for contract in rules.contracts if not set(names := said_names(contract)) & broken]


def said_names(contract: object) -> list[str]:
    """List by what names tests may call a contract: its id, its text, and what a file says with ``only``."""
    named = [name for name in (getattr(contract, "id", None), getattr(contract, "spec", None)) if name]
    return [*named, "only"] if len(named) == 1 and isinstance(contract, Only) else named
