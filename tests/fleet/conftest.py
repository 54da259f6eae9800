"""Stores that the tests use, and servers that they start."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from openbox_agentrt.fleet import Fleet, RedisFleet, SqliteFleet
from openbox_agentrt.fleet.steps import StoreLine
from tests.fleet.lines import KINDS, open_line
from tests.fleet.redis_server import BINARY, RedisServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests that leave it as it is; each takes a namespace of its own."""
    if BINARY is None:
        pytest.skip("no redis-server is installed")
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of one's own, to be stopped, emptied and killed."""
    if BINARY is None:
        pytest.skip("no redis-server is installed")
    with RedisServer(tmp_path, "--repl-diskless-sync-delay", "0") as server:
        yield server


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the address of a store that nobody used."""
    if request.param == "redis":
        return f"{request.getfixturevalue('shared_server').url}?namespace={uuid.uuid4().hex}"
    return f"sqlite:///{tmp_path / 'fleet.db'}"


@pytest.fixture(params=KINDS)
def clocked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[StoreLine, list[int]]]:
    """A store that nobody used, and its clock, which is set by hand before it is asked."""
    now = [0]
    url = request.getfixturevalue("shared_server").url if request.param == "redis" else ""
    line = open_line(request.param, tmp_path, url, lambda: now[0])
    with closing(line):
        yield line, now


OpenFleet = Callable[[], Fleet]


@pytest.fixture(params=["sqlite", "redis"])
def open_one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenFleet]:
    """Open one more worker of a store. A busy machine gets the time that it needs."""
    is_redis = request.param == "redis"
    server = request.getfixturevalue("shared_server").url if is_redis else ""
    url = f"{server}?namespace={uuid.uuid4().hex}"
    with ExitStack() as opened:

        def make() -> Fleet:
            fleet: Fleet
            if is_redis:
                fleet = RedisFleet(url, timeout_seconds=20)
            else:
                fleet = SqliteFleet(tmp_path / "fleet.db", timeout_seconds=20)
            return opened.enter_context(closing(fleet))

        yield make


@pytest.fixture
def fleet(open_one: OpenFleet) -> Fleet:
    """One worker."""
    return open_one()


@pytest.fixture
def other(open_one: OpenFleet) -> Fleet:
    """Another worker of the same store."""
    return open_one()
