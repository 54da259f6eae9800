"""How many benign traces the contracts refuse, and how many attacks they stop, suite by suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .contracts import Which, session
from .judging import Played, play
from .suites import suite
from .traces import ORDERS, Order, Trace, attacked_traces, benign_traces, injection_traces, reworded_traces

SETS: tuple[Which, ...] = ("order", "origin", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benign:
    """Benign traces under one set of contracts."""

    traces: int
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """
    Attacked traces in one order under one set of contracts.

    Attributes:
        attacks: Attacks that reach their goal without contracts.
        passed: Those of them that reach it with contracts, too.
        disturbed: Those in which a call of the user's own was refused.
        by: How many attacks each contract refused a call of.
    """

    attacks: int
    passed: tuple[str, ...]
    disturbed: tuple[str, ...]
    by: tuple[tuple[str, int], ...]

    @property
    def stopped(self) -> int:
        return self.attacks - len(self.passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteNumbers:
    """
    Everything that is measured about one suite.

    Attributes:
        pairs: User tasks times injection tasks.
        without_calls: Injection tasks whose ground truth has no calls, so that they cannot be played.
        alone: Injection tasks with calls, on a session of their own.
        alone_passed: Those of them that reach their goal under the rules file.
    """

    suite: str
    pairs: int
    without_calls: int
    alone: int
    alone_passed: tuple[str, ...]
    benign: dict[Which, Benign]
    reworded: Benign
    attacked: dict[tuple[Which, Order], Attacked]


def measure(name: str, attacked: Iterable[Trace] | None = None) -> SuiteNumbers:
    """Play all traces of a suite. `attacked` are its attacked traces, if they have been made already."""
    own = benign_traces(name)
    alone = injection_traces(name)
    with_calls = [trace for trace in alone if trace.calls]
    alone_played = [play(trace, session(name)) for trace in with_calls]
    return SuiteNumbers(
        suite=name,
        pairs=len(own) * len(suite(name).injection_tasks),
        without_calls=len(alone) - len(with_calls),
        alone=len(with_calls),
        alone_passed=_names(played for played in alone_played if played.reached),
        benign={which: _benign(own, which) for which in SETS},
        reworded=_benign(reworded_traces(name), "all"),
        attacked=_attacked(attacked_traces(name) if attacked is None else attacked),
    )


def _benign(traces: list[Trace], which: Which) -> Benign:
    played = [play(trace, session(trace.suite, which)) for trace in traces]
    return Benign(
        traces=len(played),
        refused=_names(one for one in played if one.refused),
    )


def _attacked(traces: Iterable[Trace]) -> dict[tuple[Which, Order], Attacked]:
    played: dict[tuple[Which, Order], list[Played]] = {
        (which, order): [] for which in SETS for order in ORDERS
    }
    for trace in traces:
        # On some pairs, AgentDojo's check of the goal fails without contracts, too: the planted text is taken
        # for a part of the answer, or the user's task undoes what the attack did. Nothing is to be stopped.
        if trace.order is None or not play(trace).reached:
            continue
        for which in SETS:
            played[which, trace.order].append(play(trace, session(trace.suite, which)))
    return {key: _sum(value) for key, value in played.items()}


def _sum(played: list[Played]) -> Attacked:
    by = Counter(
        contract
        for one in played
        for contract in {contract for refused in one.refused_injected for contract in refused.contracts}
    )
    return Attacked(
        attacks=len(played),
        passed=_names(one for one in played if one.reached),
        disturbed=_names(one for one in played if one.refused_own),
        by=tuple(sorted(by.items(), key=lambda item: (-item[1], item[0]))),
    )


def _names(played: Iterable[Played]) -> tuple[str, ...]:
    return tuple(one.trace.name for one in played)
