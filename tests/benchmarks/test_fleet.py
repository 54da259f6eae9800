"""The benchmark of the fleet's stores still runs."""

from __future__ import annotations

import pytest

from benchmarks.fleet.command import main
from tests.fleet.redis_server import BINARY


@pytest.mark.skipif(BINARY is None, reason="no redis-server is installed")
@pytest.mark.parametrize("part", ["latency", "limit", "memory", "hanging"])
def test_it_runs(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each table is printed; the numbers mean nothing here."""
    if part == "latency":
        pytest.importorskip("limits")

    assert main([part, "--quick"]) == 0

    assert "redis" in capsys.readouterr().out
