"""A real HTTP server on the loopback, small enough to misbehave on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from .._extras import require

if TYPE_CHECKING:
    import h11
else:
    h11 = require("h11", extra="testing")

_HOST = "127.0.0.1"
_START_SECONDS = 10.0
_NO_LINGER = struct.pack("ii", 1, 0)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    Hold a request as it came over the wire.

    Attributes:
        headers: By name in lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Decode the body of the request."""
        return json.loads(self.body)


class ResponseWriter:
    """Send the answer to one request, part by part."""

    def __init__(self, connection: h11.Connection, writer: asyncio.StreamWriter) -> None:
        self._connection = connection
        self._writer = writer

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of the answer."""
        await self._send(h11.Response(status_code=status, headers=list(headers.items())))

    async def write(self, data: bytes) -> None:
        """Send a part of the body."""
        if data:
            await self._send(h11.Data(data=data))

    async def end(self) -> None:
        """End the answer; the connection can be used again."""
        await self._send(h11.EndOfMessage())

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer."""
        bodiless = status < 200 or status in (204, 304)
        length = {} if bodiless else {"content-length": str(len(body))}
        await self.start(status, {**headers, **length})
        if not bodiless:
            await self.write(body)
        await self.end()

    async def drop(self, *, reset: bool = False) -> NoReturn:
        """Close the connection after what was sent so far; `reset` throws away what was not read yet."""
        transport_socket = self._writer.get_extra_info("socket")
        if reset and transport_socket is not None:
            transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._writer.transport.abort()
        else:
            self._writer.close()
            await self._writer.wait_closed()
        raise ConnectionAbortedError

    async def _send(self, event: Any) -> None:
        data = self._connection.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()


class LoopbackServer(ABC):
    """
    Run an HTTP/1.1 server on a free port of this machine, in a thread of its own.

    Use it as a context manager. When it is left, every connection is closed and the thread has ended.
    """

    def __init__(self) -> None:
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def respond(self, request: Request, response: ResponseWriter) -> None:
        """Answer `request` in one or several parts."""

    @property
    def url(self) -> str:
        """Give the address of the server; known once it was started."""
        if self._port == 0:
            raise RuntimeError("the server was not started")
        return f"http://{_HOST}:{self._port}"

    def start(self) -> Self:
        """Start the server; returns once it can be reached."""
        if self._thread is not None:
            raise RuntimeError("the server was started already")
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name=type(self).__name__, daemon=True
        )
        self._thread.start()
        if not ready.wait(_START_SECONDS):
            raise RuntimeError("the server did not start")
        return self

    def stop(self) -> None:
        """Stop the server and wait for its thread. May be called twice."""
        if self._thread is None or self._loop is None or self._stop is None:
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def refuse_connections(self) -> None:
        """Close the port and every connection: from now on clients are refused."""
        self._run(self._close())

    def accept_connections(self) -> None:
        """Open the same port again."""
        self._run(self._listen())

    def _run(self, work: Any) -> None:
        if self._loop is None:
            work.close()
            raise RuntimeError("the server was not started")
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await self._listen()
        ready.set()
        await self._stop.wait()
        await self._close()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, _HOST, self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            await stop_accepting(self._server)
            self._server = None
        # A connection that was accepted just now needs a few turns of the loop until it has a task.
        for _ in range(20):
            await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A few turns of the loop, in which the aborted transports close their sockets.
        for _ in range(5):
            await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        try:
            await self._converse(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, h11.ProtocolError):
            # The client went away, or speaks no HTTP: there is nobody to tell.
            logger.debug("a connection ended early", exc_info=True)
        except asyncio.CancelledError:
            # The server stops, and asyncio would log a connection whose task ended cancelled.
            logger.debug("a connection was closed with its server")
        except Exception:
            # A mistake in an answer must show, and must not keep the other connections from theirs.
            logger.exception("a request was not answered")
        finally:
            if task is not None:
                self._tasks.discard(task)
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            request = await _read_request(connection, reader, writer)
            if request is None:
                return
            await self.respond(request, ResponseWriter(connection, writer))
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()


async def stop_accepting(server: asyncio.Server) -> None:
    """
    Close the port of `server`, and let what it has accepted become a connection first.

    A server that is closed in between leaves the socket open: asyncio makes no transport for a closed server.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        with contextlib.suppress(NotImplementedError):  # the loop of Windows has no readers
            loop.remove_reader(listening.fileno())
    for _ in range(5):
        await asyncio.sleep(0)
    server.close()


async def _read_request(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Request | None:
    head: h11.Request | None = None
    parts: list[bytes] = []
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers
            }
            return Request(
                method=head.method.decode("ascii"),
                path=head.target.decode("latin-1"),
                headers=headers,
                body=b"".join(parts),
            )
        else:
            return None
