"""The example of a web service with four workers, as somebody who copies it would run it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet_fastapi"


@contextmanager
def service(folder: Path, port: int, *, workers: int) -> Iterator[None]:
    """Run the service with so many workers, until the block ends."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OPENBOX_")}
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "app:app",
        "--app-dir",
        str(EXAMPLE),
        "--log-level",
        "warning",
    ]
    process = subprocess.Popen(
        [*command, "--workers", str(workers), "--port", str(port)], cwd=folder, env=environ
    )
    try:
        wait_for(port, process)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"http://127.0.0.1:{port}/health", timeout=1)
            return
        except httpx.TransportError:
            time.sleep(0.05)
    pytest.fail("the service did not start")


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


async def refunds(port: int, count: int, customer: str = "c-7") -> list[httpx.Response]:
    """Ask for refunds of 100 each, all at once, each on a connection of its own."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=30) as client:

        async def one() -> httpx.Response:
            while True:
                answer = await client.post(f"/customers/{customer}/refunds", json={"amount": 100})
                # On a machine that is busy enough, the store may take too long, which is no budget's fault.
                if answer.status_code != 503:
                    return answer
                await asyncio.sleep(0.2)

        return list(await asyncio.gather(*(one() for _ in range(count))))


def in_conversation(port: int, what: str, conversation: str = "1") -> httpx.Response:
    """Ask for something in a conversation, on a connection of its own."""
    while True:
        answer = httpx.post(f"http://127.0.0.1:{port}/conversations/{conversation}/{what}", timeout=30)
        if answer.status_code != 503:
            return answer
        time.sleep(0.2)


def paid(folder: Path, customer: str = "c-7") -> float:
    """Count at the bank, and not at the service."""
    rows = [line.split(",") for line in (folder / "payments.csv").read_text().splitlines()]
    return sum(float(amount) for name, amount, _ in rows if name == customer)


def test_five_hundred_are_paid_across_workers_and_a_restart(tmp_path: Path, port: int) -> None:
    """
    Twenty requests of 100, in the middle of which the service is stopped and started again.

    A conversation goes on over that as well.
    """
    with service(tmp_path, port, workers=1):
        first = asyncio.run(refunds(port, 3))
        assert [answer.status_code for answer in first] == [200] * 3
        assert in_conversation(port, "address").status_code == 409
        assert in_conversation(port, "verify").status_code == 200
    with service(tmp_path, port, workers=4):
        for _ in range(8):
            assert in_conversation(port, "address").status_code == 200
        unverified = in_conversation(port, "address", conversation="2")
        later = asyncio.run(refunds(port, 17))
        other = asyncio.run(refunds(port, 6, customer="c-8"))

    assert unverified.status_code == 409
    assert paid(tmp_path) == 500
    assert paid(tmp_path, "c-8") == 500
    refused = [answer for answer in [*later, *other] if answer.status_code == 409]
    assert len(refused) == 16
    assert "0 left of 500 today, free again at 00:00 UTC" in refused[0].json()["refused"]
    assert 0 < int(refused[0].headers["retry-after"]) <= 86_400
