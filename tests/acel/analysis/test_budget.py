"""What a search may spend: processor time, and some more of the time that passes."""

from __future__ import annotations

import time

import pytest

from openbox_agentrt.acel.analysis.budget import Budget, processor_clock


class _Machine:
    """Let a thread compute, and time pass, by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.computed = self.passed = 100.0
        patch.setattr(time, "thread_time", lambda: self.computed)
        patch.setattr(time, "monotonic", lambda: self.passed)

    def go_on(self, computed: float, passed: float) -> None:
        self.computed += computed
        self.passed += passed


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> _Machine:
    return _Machine(monkeypatch)


def test_what_other_programs_compute_is_not_spent(machine: _Machine) -> None:
    budget = Budget(1.0, 100)
    machine.go_on(0.9, 3.0)

    assert not budget.late

    machine.go_on(0.2, 0.2)

    assert budget.late


def test_a_search_ends_where_the_processor_is_hardly_ever_free(machine: _Machine) -> None:
    budget = Budget(1.0, 100)
    machine.go_on(0.1, 5.1)

    assert budget.late


def test_parts_are_counted_by_the_same_clock(machine: _Machine) -> None:
    budget = Budget(1.0, 100)
    machine.go_on(0.5, 0.6)
    part = budget.part(5)
    machine.go_on(0.09, 0.25)

    assert not part.late

    machine.go_on(0.02, 0.02)

    assert part.late
    assert not budget.late


def test_a_clock_starts_when_it_is_made(machine: _Machine) -> None:
    spent = processor_clock()
    machine.go_on(0.25, 0.5)

    assert spent() == 0.25
