"""A short attack on each store; ``python -m benchmarks fleet-torture`` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet.torture import attack
from tests.fleet.redis_server import BINARY


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_no_attack_pays_more_than_allowed(store: str, tmp_path: Path) -> None:
    """Nobody is paid too often; what is missing at the end was under way in a worker that was killed."""
    if store == "redis" and BINARY is None:
        pytest.skip("no redis-server is installed")

    outcome = attack(store, tmp_path, seconds=2.0, workers=3, limit=60, lease=0.6, seed=3)

    assert outcome.faults.total() > 3
    assert outcome.oversold() == 0
    assert outcome.missing() <= outcome.kills
    assert outcome.paid.total() > 100
