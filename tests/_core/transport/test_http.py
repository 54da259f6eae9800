"""The line to a remote Core: what is sent, what comes back, and what is left open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import logging
import os
import socket
import ssl
import threading
import warnings
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from openbox_agentrt._breaker import Breaker
from openbox_agentrt._core.transport.clients import AT_ONCE, LoopClients, ProcessClient
from openbox_agentrt._core.transport.exchange import MAX_ANSWER_BYTES, AnswerTooLargeError, CutAnswerError
from openbox_agentrt._core.transport.http import HttpLine, http_line
from openbox_agentrt._core.transport.wire import CoreTransport

from ..raw_server import ALLOW, RawServer, Reply, answer, sending

PATH = "/api/v1/governance/evaluate"
BLOCK = b'{"verdict":"block"}'
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer k", "X-OpenBox-Body-SHA256": "00"}
CHUNKS = b"5\r\n" + ALLOW[:5] + b"\r\ne\r\n" + ALLOW[5:] + b"\r\n0\r\n\r\n"
MANY_CHUNKS = [b"10000\r\n" + b"x" * 65_536 + b"\r\n"] * 100
MANY_HEADERS = b"".join(b"x%d: y\r\n" % number for number in range(50_000))
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine has set is not what these tests are about."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def carried(
    line: HttpLine, body: bytes = b"{}", headers: Mapping[str, str] = HEADERS
) -> tuple[int, Mapping[str, str], bytes]:
    async with asyncio.timeout(10):
        return await line.carry("POST", PATH, headers, body)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


class TestAnswers:
    """Whatever form HTTP gives them."""

    @pytest.mark.parametrize(
        "reply",
        [
            pytest.param(sending(answer()), id="with a length"),
            pytest.param(
                sending(CHUNKED + b"5\r\n" + ALLOW[:5] + b"\r\ne\r\n" + ALLOW[5:] + b"\r\n0\r\n\r\n"),
                id="chunked",
            ),
            pytest.param(sending(answer(gzip.compress(ALLOW), b"Content-Encoding: gzip")), id="gzip"),
            pytest.param(sending(answer(gzip.compress(ALLOW), b"Content-Encoding: X-GZIP ")), id="x-gzip"),
            pytest.param(sending(answer(zlib.compress(ALLOW), b"Content-Encoding: deflate")), id="deflate"),
            pytest.param(sending(b"HTTP/1.1 200 OK\r\n\r\n" + ALLOW, close=True), id="until the end"),
            pytest.param(
                sending(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer()), id="after early hints"
            ),
            pytest.param(sending(answer(ALLOW, b"Connection: close"), close=True), id="the last one"),
            pytest.param(sending(answer(ALLOW, b"Set-Cookie: a=b")), id="with a cookie"),
            pytest.param(sending(answer()[:-5], 0.05, answer()[-5:]), id="in two pieces"),
        ],
    )
    async def test_an_answer_arrives_whole(self, server: RawServer, reply: Any) -> None:
        """In one piece, and decoded."""
        server.reply = reply
        line = HttpLine(server.url)

        status, _, body = await carried(line)
        await line.aclose()

        assert (status, body) == (200, ALLOW)

    @pytest.mark.parametrize(
        ("reply", "status", "name", "value"),
        [
            (
                sending(answer(b"", b"Location: /elsewhere", status=b"302 Found")),
                302,
                "location",
                "/elsewhere",
            ),
            (sending(answer(b"{}", b"Retry-After: 7", status=b"429 Slow")), 429, "retry-after", "7"),
            (sending(b"HTTP/1.1 204 No Content\r\n\r\n"), 204, "content-type", None),
        ],
        ids=["a redirect", "a wait", "no content"],
    )
    async def test_other_statuses_are_answers_too(
        self, server: RawServer, reply: Any, status: int, name: str, value: str | None
    ) -> None:
        """A redirect is not followed: the key would go elsewhere."""
        server.reply = reply
        line = HttpLine(server.url)

        found, headers, _ = await carried(line)
        await line.aclose()

        assert (found, {key.lower(): text for key, text in headers.items()}.get(name)) == (status, value)
        assert len(server.heads) == 1

    async def test_a_cookie_is_not_kept(self, server: RawServer) -> None:
        """Core knows who asks by its key."""
        server.reply = sending(answer(ALLOW, b"Set-Cookie: a=b"))
        line = HttpLine(server.url)

        await carried(line)
        await carried(line)
        await line.aclose()

        assert b"cookie" not in server.heads[1].lower()

    @pytest.mark.parametrize(
        "reply",
        [
            pytest.param(sending(answer(b"x" * (MAX_ANSWER_BYTES + 1))), id="long"),
            pytest.param(sending(CHUNKED, *MANY_CHUNKS), id="without an end"),
            pytest.param(
                sending(answer(gzip.compress(b"x" * 50_000_000, 1), b"Content-Encoding: gzip")), id="a bomb"
            ),
        ],
    )
    async def test_an_answer_is_bounded(self, server: RawServer, reply: Any) -> None:
        """It is not read, and not unfolded, to its end."""
        server.reply = reply
        line = HttpLine(server.url)

        with pytest.raises(AnswerTooLargeError):
            await carried(line)
        await line.aclose()


class TestFailures:
    """In httpx's words, which openbox_core and the gate know."""

    @pytest.mark.parametrize(
        ("reply", "error"),
        [
            pytest.param(sending(close=True), httpx.RemoteProtocolError, id="nothing"),
            pytest.param(sending(reset=True), httpx.TransportError, id="a reset"),
            pytest.param(sending(b"SSH-2.0-x\r\n\r\n"), CutAnswerError, id="no HTTP"),
            pytest.param(sending(answer(BLOCK)[:20], close=True), CutAnswerError, id="half a head"),
            pytest.param(sending(answer(BLOCK) + b"\0\r\n\r\n"), CutAnswerError, id="an answer and junk"),
            pytest.param(sending(answer(BLOCK, b"X-A: a\0b")), CutAnswerError, id="a header with a NUL"),
            pytest.param(sending(CHUNKED + b"zz\r\n" + BLOCK), CutAnswerError, id="chunks without a size"),
            pytest.param(
                sending(answer(status=b"404 Not Found")[:-5], close=True), CutAnswerError, id="half a refusal"
            ),
            pytest.param(
                sending(b"HTTP/1.1 200 OK\r\n" + MANY_HEADERS + b"\r\n"),
                CutAnswerError,
                id="headers without an end",
            ),
            pytest.param(
                sending(b"HTTP/1.1 200 OK\r\nContent-Length: 19\r\nContent-Length: 3\r\n\r\n" + ALLOW),
                CutAnswerError,
                id="two lengths",
            ),
            pytest.param(
                sending(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n13\r\n"
                    + ALLOW
                    + b"\r\n0\r\n\r\n"
                ),
                CutAnswerError,
                id="a length and chunks",
            ),
            pytest.param(sending(answer()[:-5], close=True), CutAnswerError, id="cut off"),
            pytest.param(
                sending(answer(gzip.compress(ALLOW)[:-9], b"Content-Encoding: gzip")),
                CutAnswerError,
                id="cut off before it was packed",
            ),
            pytest.param(
                sending(answer(gzip.compress(ALLOW) + gzip.compress(b"{}"), b"Content-Encoding: gzip")),
                CutAnswerError,
                id="two packed answers",
            ),
            pytest.param(sending(answer(ALLOW, b"Content-Encoding: br")), CutAnswerError, id="packed in br"),
            pytest.param(
                sending(answer(status=b"503 Busy")[:-5], close=True),
                httpx.ReadError,
                id="half an error",
            ),
        ],
    )
    async def test_half_an_answer_is_none(
        self, server: RawServer, reply: Any, error: type[Exception]
    ) -> None:
        """What began and did not end, or is no HTTP, is told apart from silence: somebody has judged."""
        server.reply = reply
        line = HttpLine(server.url)

        with pytest.raises(error) as caught:
            await carried(line)
        await line.aclose()

        assert isinstance(caught.value, CutAnswerError) == (error is CutAnswerError)

    async def test_nobody_listens(self) -> None:
        """Told apart from an answer that did not come."""
        line = HttpLine("http://127.0.0.1:1")

        with pytest.raises(httpx.ConnectError):
            await carried(line)
        await line.aclose()

    @pytest.mark.parametrize("value", ["a\r\nInjected: 1", "a\nb", "a\x00b"], ids=repr)
    async def test_a_header_that_cannot_be_sent_is_not(self, server: RawServer, value: str) -> None:
        """Nothing of the request leaves."""
        line = HttpLine(server.url)

        with pytest.raises(httpx.LocalProtocolError):
            await carried(line, headers={**HEADERS, "X-A": value})
        await line.aclose()

        assert server.heads == []

    @pytest.mark.parametrize("path", ["https://elsewhere.example/api", "//elsewhere.example", "api/v1"])
    async def test_it_leads_to_core_only(self, server: RawServer, path: str) -> None:
        """What is not a path of Core's is refused, or is one of Core's all the same."""
        line = HttpLine(server.url)

        with contextlib.suppress(httpx.UnsupportedProtocol):
            await line.carry("POST", path, HEADERS, b"{}")
        await line.aclose()

        assert all(f"Host: 127.0.0.1:{server.port}".encode() in head for head in server.heads)
        assert bool(server.heads) == path.startswith("/")


class TestRequests:
    """What was signed is what is sent."""

    async def test_bytes_and_headers_are_sent_as_they_are(self, server: RawServer) -> None:
        """Each header once."""
        line, body = HttpLine(f"{server.url}/behind/"), os.urandom(300) + b"\r\n"

        await carried(line, body)
        await line.aclose()

        head = server.heads[0]
        assert head.startswith(b"POST /behind/api/v1/governance/evaluate HTTP/1.1\r\n")
        assert server.bodies == [body]
        assert all(f"{name}: {value}\r\n".encode() in head for name, value in HEADERS.items())
        for name in (b"authorization:", b"content-length:", b"host:", b"content-type:"):
            assert head.lower().count(name) == 1

    @pytest.mark.parametrize(
        ("path", "sent"), [("a b", b"/a%20b/"), ("caf\xe9", b"/caf%C3%A9/"), ("a/../b", b"/b/")]
    )
    async def test_an_address_is_written_as_httpx_writes_it(
        self, server: RawServer, path: str, sent: bytes
    ) -> None:
        """A blank would end the request line, and hooks that go over httpx have to reach the same."""
        line = HttpLine(f"{server.url}/{path}")

        await carried(line)
        await line.aclose()

        assert server.heads[0].startswith(b"POST " + sent + b"api/v1/governance/evaluate HTTP/1.1\r\n")

    async def test_a_large_body_is_sent_with_its_length(self, server: RawServer) -> None:
        """And without a warning, which would be an error here."""
        line, body = HttpLine(server.url), b"x" * 3_000_000

        await carried(line, body)
        await line.aclose()

        assert server.bodies == [body]
        assert b"content-length: 3000000" in server.heads[0].lower()


class TestConnections:
    """Kept while they are good, and never trusted beyond that."""

    async def test_one_connection_serves_requests_in_turn(self, server: RawServer) -> None:
        """Opening one costs more than asking."""
        line = HttpLine(server.url)
        for _ in range(20):
            await carried(line)
        await line.aclose()

        assert server.connections == 1

    @pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
    async def test_one_that_ended_while_idle_is_not_used(self, server: RawServer, reset: bool) -> None:
        """The next request is fine."""
        line = HttpLine(server.url)
        server.reply = sending(answer(), 0.02, close=not reset, reset=reset)
        await carried(line)
        await asyncio.sleep(0.15)
        server.reply = sending(answer())

        assert (await carried(line))[2] == ALLOW
        await line.aclose()

    async def test_an_answer_that_nobody_asked_for_is_not_the_next(self, server: RawServer) -> None:
        """A server that answers twice must not decide about another call."""
        line = HttpLine(server.url)
        server.reply = sending(answer() + answer(b'{"verdict":"allow","poison":1}'))
        await carried(line)
        await asyncio.sleep(0.05)
        server.reply = sending(answer(b'{"verdict":"block"}'))

        assert (await carried(line))[2] == b'{"verdict":"block"}'
        await line.aclose()

    async def test_one_that_comes_while_nobody_asks_is_not_the_next_either(self, server: RawServer) -> None:
        """The connection is given up: what stands in it was said of nothing."""
        line, unasked, sent = HttpLine(server.url), threading.Event(), threading.Event()

        async def twice(writer: asyncio.StreamWriter) -> None:
            writer.write(answer())
            await asyncio.to_thread(unasked.wait, 10)
            writer.write(answer(b'{"verdict":"allow","poison":1}'))
            sent.set()

        server.reply = twice
        await carried(line)
        server.reply = sending(answer(BLOCK))
        unasked.set()
        await asyncio.to_thread(sent.wait, 10)
        for _ in range(3):
            await asyncio.sleep(0)  # the loop reads what has arrived

        assert (await carried(line))[2] == BLOCK
        assert server.connections == 2
        await line.aclose()

    @pytest.mark.parametrize("close", [False, True], ids=["an answer", "an end"])
    async def test_nor_is_what_comes_while_the_loop_is_busy(self, server: RawServer, close: bool) -> None:
        """A tool that holds the loop keeps it from reading what has arrived, and that would be read first."""
        line, sent = HttpLine(server.url), threading.Event()

        async def twice(writer: asyncio.StreamWriter) -> None:
            writer.write(answer(BLOCK))
            await asyncio.to_thread(waiting.wait, 10)
            if close:
                writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            else:
                writer.write(answer(b'{"verdict":"allow","poison":1}'))
            sent.set()

        server.reply, waiting = twice, threading.Event()
        await carried(line)
        server.reply = sending(answer(BLOCK))
        waiting.set()
        sent.wait(10)  # holds the loop

        assert (await carried(line))[2] == BLOCK
        assert server.connections == 2
        await line.aclose()

    async def test_an_answer_before_the_end_of_the_request_counts(self) -> None:
        """Core need not read what it refuses, and the rest is sent to nobody."""
        given = answer(status=b"413 Too Large")

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(given)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            await gone.wait()
            writer.close()

        gone = asyncio.Event()
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        line = HttpLine(f"http://127.0.0.1:{port}")
        async with server:
            for _ in range(2):
                assert (await carried(line, b"x" * 30_000_000))[0] == 413
            await line.aclose()
            gone.set()

    async def test_a_request_is_never_sent_twice_by_itself(self, server: RawServer) -> None:
        """Where the connection ends as it is used, the gate decides about asking again."""
        line, failed = HttpLine(server.url), 0
        server.reply = sending(answer(), 0.02, close=True)
        for number in range(40):
            try:
                await carried(line)
            except httpx.TransportError:
                failed += 1
            await asyncio.sleep(0.018 + 0.0002 * (number % 20))
        await line.aclose()

        assert len(server.heads) <= 40
        assert len(server.heads) >= 40 - failed

    @pytest.mark.parametrize(
        "reply",
        [
            pytest.param(sending(0.3, answer(b'{"stale":1}')), id="slow"),
            pytest.param(sending(answer()[:-5], 0.3, answer()[-5:]), id="half"),
            pytest.param(sending(answer()), id="quick"),
        ],
    )
    async def test_a_cancelled_request_leaves_nothing_behind(self, server: RawServer, reply: Any) -> None:
        """No late answer for the next one, and no open connection."""
        line = HttpLine(server.url)
        await carried(line)
        server.reply = reply
        for number in range(20):
            task = asyncio.ensure_future(line.carry("POST", PATH, HEADERS, b"{}"))
            await asyncio.sleep(0.005 * (number % 6))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        server.reply = sending(answer())

        assert [(await carried(line))[2] for _ in range(5)] == [ALLOW] * 5
        await line.aclose()
        for _ in range(200):
            if not server.open:
                break
            await asyncio.sleep(0.02)
        assert server.open == 0

    async def test_a_thousand_at_once_are_bounded(self, server: RawServer) -> None:
        """Each gets its answer, in turn."""
        line = HttpLine(server.url)

        answers = await asyncio.gather(*(carried(line, b"%d" % number) for number in range(1_000)))
        await line.aclose()

        assert {body for _, _, body in answers} == {ALLOW}
        assert server.connections <= AT_ONCE


class TestLoops:
    """Connections belong to the loop that opened them."""

    def test_loops_in_turn_leave_nothing_open(self, server: RawServer) -> None:
        """Without anybody closing it, and without a warning."""
        line, before = HttpLine(server.url), open_files()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for _ in range(10):
                assert asyncio.run(carried(line))[2] == ALLOW
            gc.collect()

        assert len(line._connections) == 0
        assert open_files() <= before + 1
        assert [str(each.message) for each in warned] == []

    def test_loops_side_by_side(self, server: RawServer) -> None:
        """Eight threads, five loops each, one line."""
        line, statuses = HttpLine(server.url), []

        def work() -> None:
            for _ in range(5):
                statuses.append(asyncio.run(carried(line))[0])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

        assert statuses == [200] * 40

    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the loop left its transports open
    def test_a_loop_made_by_hand_is_forgotten_in_silence(
        self, server: RawServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It does not end what was started on it; the next loop clears up."""
        line = HttpLine(server.url)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(carried(line))
        loop.close()

        with caplog.at_level(logging.WARNING, logger="asyncio"):
            asyncio.run(carried(line))
            del loop
            gc.collect()

        assert len(line._connections) == 0
        assert caplog.messages == []

    @NO_FORK
    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
    def test_a_forked_child_opens_its_own(self, server: RawServer) -> None:
        """And the parent goes on with its connection."""
        line = HttpLine(server.url)

        async def fork() -> int:
            await carried(line)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    asyncio.events._set_running_loop(None)
                    status = 0 if asyncio.run(carried(line))[0] == 200 else 2
                finally:
                    os._exit(status)
            ended = await asyncio.to_thread(os.waitpid, child, 0)
            await carried(line)
            return os.waitstatus_to_exitcode(ended[1])

        assert asyncio.run(asyncio.wait_for(fork(), 20)) == 0
        assert server.connections == 2


class TestProxies:
    """The environment says which way leads to Core."""

    @pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
    async def test_a_proxy_is_asked(
        self, server: RawServer, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """With the whole address of Core."""
        monkeypatch.delenv("REQUEST_METHOD", raising=False)
        monkeypatch.setenv(name, server.url)
        line = http_line("http://core.example")
        assert line is not None

        await carried(line)
        await line.aclose()

        assert server.heads[0].startswith(b"POST http://core.example/api/v1/governance/evaluate HTTP/1.1")

    @pytest.mark.parametrize("base", ["http://core.invalid", "url"], ids=["by name", "by number"])
    async def test_an_exception_is_asked_directly(
        self, server: RawServer, monkeypatch: pytest.MonkeyPatch, base: str
    ) -> None:
        """``NO_PROXY`` counts."""
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "core.invalid,127.0.0.1")
        line = http_line(server.url if base == "url" else base)
        assert line is not None

        if base == "url":
            assert (await carried(line))[0] == 200
        else:
            with pytest.raises(httpx.ConnectError):
                await carried(line)
        await line.aclose()

    @pytest.mark.parametrize("written", ["::1", "[::1]"])
    def test_an_ipv6_address_is_an_exception_however_it_is_written(
        self, monkeypatch: pytest.MonkeyPatch, written: str
    ) -> None:
        """Core's key would go to the proxy."""
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", written)
        line = http_line("http://[::1]:8086")

        assert line is not None
        assert line._proxy is None

    @pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
    async def test_this_machine_is_asked_directly(
        self, server: RawServer, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """A proxy would ask its own machine, and has no business with the key. So do the clients of httpx."""
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        line, clients, client = http_line(server.url), LoopClients(), ProcessClient()
        assert line is not None
        port = server.url.rpartition(":")[2]

        assert (await carried(line))[0] == 200
        assert (await asyncio.to_thread(client.get().get, f"http://localhost:{port}/")).status_code == 200
        async with clients.turn() as asynchronous:
            assert (await asynchronous.get(server.url)).status_code == 200
        await line.aclose()
        await clients.aclose()
        client.close()

    async def test_a_proxy_that_is_not_there_is_told_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From a Core that is not there."""
        monkeypatch.setenv("HTTP_PROXY", "127.0.0.1:1")
        line = http_line("http://core.example")
        assert line is not None

        with pytest.raises(httpx.ProxyError):
            await carried(line)
        await line.aclose()

    def test_what_only_httpx_knows_is_left_to_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Such as SOCKS."""
        monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")

        assert http_line("https://core.example") is None


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class TestCertificates:
    """Core is who its certificate says, by the authorities that httpx trusts."""

    @pytest.fixture
    def secure(self, authority: trustme.CA) -> Iterator[RawServer]:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost").configure_cert(tls)
        with RawServer(tls=tls) as running:
            yield running

    async def test_an_unknown_authority_is_refused(self, secure: RawServer) -> None:
        """Nothing is sent."""
        line = HttpLine(f"https://localhost:{secure.port}")

        with pytest.raises(httpx.ConnectError):
            await carried(line)
        await line.aclose()

        assert secure.heads == []

    @pytest.mark.parametrize(("host", "known"), [("localhost", True), ("127.0.0.1", False)])
    async def test_the_authority_of_the_environment_counts(
        self,
        secure: RawServer,
        authority: trustme.CA,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        host: str,
        known: bool,
    ) -> None:
        """And the name in the certificate."""
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        line = HttpLine(f"https://{host}:{secure.port}")

        if known:
            assert (await carried(line))[0] == 200
        else:
            with pytest.raises(httpx.ConnectError):
                await carried(line)
        await line.aclose()


async def posted(server: RawServer, way: str) -> httpx.Response:
    """What a hook is told, by the way that its question takes."""
    line = HttpLine(server.url) if way == "over the line" else None
    transport, address = CoreTransport(breaker=Breaker(), line=line), f"{server.url}{PATH}"
    try:
        if way == "synchronous":
            with httpx.Client(transport=transport) as client:
                return await asyncio.to_thread(client.post, address, content=b"{}", headers=HEADERS)
        async with httpx.AsyncClient(transport=transport) as asking:
            return await asking.post(address, content=b"{}", headers=HEADERS)
    finally:
        if line is not None:
            await line.aclose()


class TestUnderHttpx:
    """openbox_core's own asynchronous hooks ask through httpx, and over the same line."""

    async def test_a_request_to_core_takes_the_line(self, server: RawServer) -> None:
        """With its query, and decoded once."""
        server.reply = sending(answer(gzip.compress(ALLOW), b"Content-Encoding: gzip"))
        transport = CoreTransport(breaker=Breaker(), line=HttpLine(server.url))
        async with httpx.AsyncClient(transport=transport) as client:
            response = await client.post(f"{server.url}{PATH}?x=1", content=b"{}", headers=HEADERS)

        assert response.json() == {"verdict": "allow", "reason": None}
        assert server.heads[0].startswith(b"POST /api/v1/governance/evaluate?x=1 HTTP/1.1")
        assert b"httpx" in server.heads[0]

    @pytest.mark.parametrize(
        "reply",
        [
            pytest.param(
                sending(answer(gzip.compress(ALLOW) + gzip.compress(BLOCK), b"Content-Encoding: gzip")),
                id="an allow and a block, packed",
            ),
            pytest.param(
                sending(answer(gzip.compress(ALLOW) + b"junk", b"Content-Encoding: gzip")),
                id="packed, and junk",
            ),
            pytest.param(
                sending(answer(gzip.compress(ALLOW)[:-9], b"Content-Encoding: gzip")),
                id="packed, and cut off",
            ),
            pytest.param(sending(CHUNKED + CHUNKS[:-5], close=True), id="cut off"),
            pytest.param(sending(answer(ALLOW + BLOCK)), id="an allow and a block"),
            pytest.param(sending(answer(ALLOW, b"X-A: a\0b")), id="a header with a NUL"),
            pytest.param(sending(answer(b" " * MAX_ANSWER_BYTES + ALLOW)), id="too large"),
            pytest.param(sending(answer(BLOCK, status=b"503 Busy")), id="a block in an error"),
        ],
    )
    @pytest.mark.parametrize("way", ["synchronous", "over the line", "over httpx"])
    async def test_a_hook_is_told_no(self, server: RawServer, reply: Reply, way: str) -> None:
        """An answer that nobody understood is no outage, which might pass."""
        server.reply = reply

        given = await posted(server, way)

        assert (given.status_code, given.json()["verdict"]) == (200, "block")
        assert b"accept-encoding: identity" in server.heads[0].lower()

    @pytest.mark.parametrize("way", ["synchronous", "over the line", "over httpx"])
    async def test_silence_is_an_outage(self, server: RawServer, way: str) -> None:
        """Which the fail policy decides."""
        server.reply = sending(close=True)

        with pytest.raises(httpx.RemoteProtocolError):
            await posted(server, way)

    async def test_another_address_does_not(self, server: RawServer) -> None:
        """Such as that of tokens; httpx carries it."""
        transport = CoreTransport(breaker=Breaker(), line=HttpLine("http://127.0.0.1:1"))
        async with httpx.AsyncClient(transport=transport) as client:
            response = await client.post(f"{server.url}/token", content=b"{}")

        assert response.status_code == 200

    @pytest.mark.parametrize("over_the_line", [True, False], ids=["line", "httpx"])
    async def test_a_permit_bounds_the_wait(self, server: RawServer, over_the_line: bool) -> None:
        """In an outage a nested request is one short try."""
        server.reply = sending(5.0)
        breaker = Breaker(first_limit=0.1)
        breaker._open_until = float("inf")
        line = HttpLine(server.url) if over_the_line else None
        transport = CoreTransport(breaker=breaker, line=line)
        async with httpx.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx.TimeoutException):
                await client.post(f"{server.url}{PATH}", content=b"{}")
