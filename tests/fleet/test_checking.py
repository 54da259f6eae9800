"""A store that cannot be used is an error when a governance is made; one that is away is not."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import OpenBoxAgentRTGovernance, OptionError, create_openbox_agentrt
from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.fleet import open_fleet
from tests.fleet.redis_server import RedisServer, free_port


async def made(url: str) -> OpenBoxAgentRTGovernance:
    contracts = [at_most_n_times("pay", 1, scope="fleet", per="day")]
    return await create_openbox_agentrt(
        environ={}, core="off", contracts=contracts, fleet=url, install_instrumentation=False
    )


async def test_a_wrong_password_is_an_error(server: RedisServer) -> None:
    """Without the password in it."""
    server.ask("CONFIG", "SET", "requirepass", "right")
    with pytest.raises(OptionError, match="does not let this client in") as refused:
        await made(server.url.replace("redis://", "redis://:wrong-one@"))
    assert "wrong-one" not in str(refused.value)


async def test_a_policy_that_forgets_is_an_error(server: RedisServer) -> None:
    """It says which one is needed."""
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(OptionError, match="set maxmemory-policy noeviction"):
        await made(server.url)


async def test_a_server_that_says_nothing_of_itself_is_used(server: RedisServer) -> None:
    """Managed ones do not let everybody look."""
    server.ask("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-info", "-config")
    governance = await made(server.url.replace("redis://", "redis://app:secret@"))
    await governance.aclose()


@pytest.mark.parametrize("url", ["sqlite:////no/such/folder/fleet.db", "sqlite:///{text}"])
async def test_a_file_that_cannot_be_one_is_an_error(url: str, tmp_path: Path) -> None:
    """No folder, or something else in it."""
    text = tmp_path / "text"
    text.write_text("no database" * 200)
    with pytest.raises(OptionError, match=r"no folder|no SQLite file"):
        await made(url.format(text=text))


async def test_a_server_that_is_away_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Work begins, and what needs the store is refused until it is back."""
    with caplog.at_level(logging.WARNING):
        governance: Any = await made(f"redis://127.0.0.1:{free_port()}/0")
    await governance.aclose()

    assert "until it does, what depends on it is refused" in caplog.text


async def test_a_url_that_is_none_is_an_error_of_the_option() -> None:
    """Whoever reads it learns which option it was."""
    with pytest.raises(
        OptionError, match="option 'fleet' cannot be used: the server's url is not understood"
    ):
        await made("redis:/localhost")


async def test_a_socket_is_an_address(server: RedisServer, tmp_path: Path) -> None:
    """Of a server on this machine, by the path of the socket."""
    socket = tmp_path / "redis.sock"
    server.kill()
    server.options += ("--unixsocket", str(socket))
    server.start()

    with closing(open_fleet(f"unix://{socket}?namespace=mine&db=1")) as fleet:
        session = Session(fleet=fleet, contracts=[at_most_n_times("pay", 1, scope="fleet", per="day")])
        assert [session.reserve("pay", {}).allowed for _ in range(2)] == [True, False]
        assert fleet.url == f"unix://{socket}?namespace=mine&db=1"
