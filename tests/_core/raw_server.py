"""A server that sends exact bytes, over TCP or TLS, in a thread of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from openbox_agentrt.testing.http_server import stop_accepting

ALLOW = b'{"verdict":"allow"}'

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


class EndOfConnection(Exception):
    """A reply wants the connection to be closed after it."""


def answer(body: bytes = ALLOW, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer with a length."""
    lines = [b"HTTP/1.1 " + status, b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body


def sending(*pieces: bytes | float, close: bool = False, reset: bool = False) -> Reply:
    """A reply that writes bytes and waits for numbers of seconds."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            if isinstance(piece, bytes):
                writer.write(piece)
                await writer.drain()
            else:
                await asyncio.sleep(piece)
        if reset:
            writer.transport.abort()
        if close or reset:
            raise EndOfConnection

    return reply


class RawServer:
    """Sends `reply` to every request, and keeps what it was asked."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.reply: Reply = sending(answer())
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.open = 0
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    async def _stop(self) -> None:
        await stop_accepting(self._server)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # a transport lets go of its socket one turn after it is closed

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.bodies.append(await reader.readexactly(_length(head)))
                self.heads.append(head)
                await self.reply(writer)
        except (EndOfConnection, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client went away, or the reply wants it
        finally:
            self.open -= 1
            writer.close()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
