"""One connection, many event loops, threads and processes."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from openbox_agentrt._breaker import Breaker
from openbox_agentrt._core.connection import Connection, connect
from openbox_agentrt._core.hooks.adapter import HookRecorder
from openbox_agentrt._core.transport import clients as loop_clients
from openbox_agentrt._core.transport.clients import AT_ONCE, KEPT_IDLE, LoopClients, ProcessClient
from openbox_agentrt._core.transport.wire import CoreTransport
from openbox_agentrt.decision import Verdict
from openbox_agentrt.lifecycle_events import EventEnvelope, RunIdentity, tool_started
from openbox_agentrt.options import GovernanceOptions
from openbox_agentrt.testing import FaultyCore

pytestmark = pytest.mark.leaves_rows_open("single events are sent, not runs")


def event(number: int = 0) -> EventEnvelope:
    return tool_started(RunIdentity.mint(), f"a-{number}", "refund", {"order": number})


@pytest.fixture
def connection(faulty: FaultyCore, policy: dict[str, Any], recorder: HookRecorder) -> Connection:
    policy.update(decision="BLOCK")
    options = GovernanceOptions.resolve(
        environ={}, api_url=faulty.url, api_key=faulty.api_key, timeout_seconds=5.0, on_api_error="fail_open"
    )
    return connect(options, recorder)


def test_a_block_stays_a_block_in_every_asyncio_run(connection: Connection) -> None:
    """openbox_core's own client turned every other one into an ALLOW."""
    for number in range(6):
        answer = asyncio.run(connection.gate.judge(event(number)))
        assert (answer.verdict, answer.unreachable) == (Verdict.BLOCK, False)


def test_a_loop_that_ends_closes_its_connections(connection: Connection) -> None:
    """Without anybody calling aclose, and without a warning about what was left open."""
    client: Any = connection.runtime.client
    before = len(os.listdir("/proc/self/fd"))

    for number in range(5):
        asyncio.run(connection.gate.judge(event(number)))
    gc.collect()

    assert len(client.line._connections) == 0
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_loops_in_several_threads_do_not_disturb_each_other(connection: Connection) -> None:
    """Each has connections of its own, at the same time."""
    barrier = threading.Barrier(4)

    def work(number: int) -> list[Verdict]:
        async def several() -> list[Verdict]:
            barrier.wait(10)
            answers = await asyncio.gather(
                *(connection.gate.judge(event(number * 100 + n)) for n in range(5))
            )
            return [answer.verdict for answer in answers]

        return asyncio.run(several())

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))

    assert results == [[Verdict.BLOCK] * 5] * 4


def test_closing_in_one_loop_leaves_the_others_usable(connection: Connection) -> None:
    """And the closed one opens again when it is used."""

    async def use_and_close() -> Verdict:
        await connection.gate.judge(event(1))
        await connection.aclose()
        return (await connection.gate.judge(event(2))).verdict

    assert asyncio.run(use_and_close()) is Verdict.BLOCK
    assert asyncio.run(connection.gate.judge(event(3))).verdict is Verdict.BLOCK


def test_closing_reaches_the_clients_of_other_running_loops() -> None:
    """A governance is closed by one thread and used by several."""
    clients = LoopClients()
    started, finish = threading.Event(), threading.Event()
    seen: list[httpx.AsyncClient] = []

    async def hold() -> None:
        async with clients.turn() as client:
            seen.append(client)
        started.set()
        await asyncio.to_thread(finish.wait, 10)

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    started.wait(10)
    asyncio.run(clients.aclose())
    for _ in range(1_000):
        if seen[0].is_closed:
            break
        threading.Event().wait(0.01)
    finish.set()
    thread.join(10)

    assert seen[0].is_closed
    assert len(clients) == 0


def test_a_loop_that_was_only_closed_is_forgotten() -> None:
    """Loops made by hand may not end their generators; their entries do not pile up."""
    clients = LoopClients()

    async def use() -> None:
        async with clients.turn():
            pass

    for _ in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    asyncio.run(use())

    assert len(clients) == 0


async def test_requests_at_once_are_bounded_and_few_connections_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand runs that start together open a bounded number; a while later, few of them are left."""
    clients = LoopClients()
    under_way = most = 0

    async def use() -> None:
        nonlocal under_way, most
        async with clients.turn() as client:
            under_way += 1
            most = max(most, under_way)
            assert not client.is_closed
            await asyncio.sleep(0.001)
            under_way -= 1

    await asyncio.gather(*(use() for _ in range(3 * AT_ONCE)))
    entry = next(iter(clients._loops._entries.values()))

    assert most == len(entry.idle) == AT_ONCE
    monkeypatch.setattr(loop_clients, "IDLE_SECONDS", 0.001)
    await use()
    await use()
    assert len(entry.idle) == KEPT_IDLE
    await clients.aclose()
    assert not entry.idle


async def test_a_request_that_outlives_the_closing_closes_its_own_connection() -> None:
    """And the next one opens a new one."""
    clients = LoopClients()
    async with clients.turn() as client:
        await clients.aclose()
        assert not client.is_closed
    assert client.is_closed
    async with clients.turn() as other:
        assert other is not client
    await clients.aclose()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own(connection: Connection) -> None:
    """It neither reads the parent's answers nor closes the parent's sockets."""
    client = connection.runtime.client
    payload = {**event().to_payload_dict(), "timestamp": "2024-01-02T03:04:05.678Z"}
    assert client.evaluate(payload).verdict is Verdict.BLOCK
    asyncio.run(connection.gate.judge(event(1)))

    child = os.fork()
    if child == 0:
        status = 1
        try:
            here = asyncio.run(connection.gate.judge(event(2))).verdict
            there = client.evaluate({**payload, "activity_id": "child"}).verdict
            status = 0 if here is there is Verdict.BLOCK else 2
        finally:
            os._exit(status)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.evaluate({**payload, "activity_id": "parent"}).verdict is Verdict.BLOCK
    client.close()


def test_a_forked_child_does_not_wait_for_a_lock_of_the_parent() -> None:
    """The lock may have been held by a thread that the child does not have."""
    client = ProcessClient()
    client._lock.acquire()
    client._pid = -1

    assert not client.get().is_closed
    client.close()


def test_the_interpreter_exits_quietly_without_aclose(tmp_path: Path, faulty: FaultyCore) -> None:
    """No warning and no traceback from what is still open."""
    code = textwrap.dedent(
        """
        import asyncio, sys
        from openbox_agentrt._core.connection import connect
        from openbox_agentrt.lifecycle_events import RunIdentity, tool_started
        from openbox_agentrt.options import GovernanceOptions

        class Recorder:
            def refused(self, *args, **kwargs): ...
            def cancelled(self, context): ...

        options = GovernanceOptions.resolve(environ={}, api_url=sys.argv[1], api_key=sys.argv[2])
        connection = connect(options, Recorder())
        event = tool_started(RunIdentity.mint(), "a", "refund", {})
        print(asyncio.run(connection.gate.judge(event)).verdict.value)
        print(connection.runtime.client.validate_api_key())
        """
    )

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, faulty.url, faulty.api_key],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=50,
    )

    assert done.stdout.split() == ["allow", "True"]
    assert done.stderr == ""


def test_proxies_of_the_environment_are_used(faulty: FaultyCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A custom transport switches that off in httpx, which would lock out networks behind a proxy."""
    monkeypatch.setenv("HTTP_PROXY", faulty.url)
    monkeypatch.setenv("NO_PROXY", "")
    transport = CoreTransport(breaker=Breaker())
    request = httpx.Request("GET", "http://core.example/api/v1/auth/validate")

    with httpx.Client() as plain:
        expected = plain.send(request).status_code
    response = transport.handle_request(request)
    transport.close()

    assert response.status_code == expected
    assert len(faulty.requests) == 2


async def test_a_slow_drip_ends_with_the_budget() -> None:
    """One byte now and then starts every read timeout anew; the total ends it."""
    transport = CoreTransport(breaker=Breaker(), total_seconds=0.3)
    server = await asyncio.start_server(_drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    request = httpx.Request(
        "GET", f"http://127.0.0.1:{port}/", extensions={"timeout": httpx.Timeout(5.0).as_dict()}
    )

    with pytest.raises(httpx.ReadTimeout):
        await transport.handle_async_request(request)
    with pytest.raises(httpx.ReadTimeout):
        await asyncio.to_thread(transport.handle_request, request)

    await transport.aclose()
    server.close()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    try:
        for _ in range(100):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass
    finally:
        writer.close()
