from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from benchmarks.agentdojo.traces import Trace, attacked_traces


@pytest.fixture(scope="session")
def attacked() -> Callable[[str], tuple[Trace, ...]]:
    """The attacked traces of a suite, made once."""
    return cache(lambda name: tuple(attacked_traces(name)))
