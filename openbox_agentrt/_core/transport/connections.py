"""
aiohttp's connections to one Core, without aiohttp's session.

A session is made for any request to anywhere: for each it parses an address, merges headers, looks for
cookies, and starts a task that writes. That is more than all else that an answer of Core costs. Here every
request goes to the same host, so what is the same for all is worked out once for each event loop; aiohttp
opens, keeps and closes the connections, leads through a proxy and reads what comes back.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
import sys
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import SERVER_SOFTWARE

from .clients import AT_ONCE, IDLE_SECONDS

Read = Callable[[int, Mapping[str, str], aiohttp.StreamReader], Awaitable[bytes]]
"""Reads the body of an answer that has the given status and headers."""

_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_UNLIMITED: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Connections:
    """
    Ask one host, from one event loop.

    Args:
        host: An address of the host.
        proxy: Address of an HTTP proxy.
        tls: How certificates are checked.
    """

    def __init__(self, host: yarl.URL, *, proxy: yarl.URL | None, tls: ssl.SSLContext) -> None:
        self._pool = aiohttp.TCPConnector(limit=AT_ONCE, keepalive_timeout=IDLE_SECONDS, ssl=tls)
        # Never sent. It tells the pool where a connection has to lead.
        self._to = aiohttp.ClientRequest("GET", host, proxy=proxy, loop=asyncio.get_running_loop())
        self._is_forwarded = proxy is not None and not self._to.is_ssl()
        self._asked: weakref.WeakSet[ResponseHandler] = weakref.WeakSet()
        own = {
            "Host": self._to.headers["Host"],
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "User-Agent": SERVER_SOFTWARE,
        }
        if self._is_forwarded and "Proxy-Authorization" in self._to.headers:
            own["Proxy-Authorization"] = self._to.headers["Proxy-Authorization"]
        self._own = {name.lower(): f"{name}: {value}" for name, value in own.items()}
        self._written: tuple[Mapping[str, str] | None, str] = (None, "")

    async def ask(
        self, method: str, address: yarl.URL, headers: Mapping[str, str], body: bytes, read: Read
    ) -> tuple[int, Mapping[str, str], bytes]:
        """
        Make one request, and give status, headers and body of its answer. It is never sent twice.

        Args:
            read: Reads the body. What it raises is raised here.

        Raises:
            aiohttp.ClientError: There is no connection, or no answer.
            aiohttp.http.HttpProcessingError: What came is no HTTP.
            ValueError: A header cannot be sent.
        """
        connection, protocol, transport = await self._quiet()
        try:
            protocol.set_response_params(
                skip_payload=method == "HEAD", read_until_eof=True, auto_decompress=False
            )
            transport.write(self._head(method, address, headers, len(body)) + body)
            message, content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:
                message, content = await protocol.read()
            answer = await read(message.code, message.headers, content)
        except BaseException:
            # Cancellation included: the answer may come yet, and is none to the next request.
            _abort(connection)
            raise
        if transport.get_write_buffer_size():
            _abort(connection)  # answered before everything was sent
        else:
            self._asked.add(protocol)
            connection.release()
        return message.code, message.headers, answer

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.close()
        # A closed transport closes its socket in a later turn of the loop, which may be about to end.
        await asyncio.sleep(0)

    def let_go(self) -> None:
        """Forget all connections, whose loop is closed: nothing can be awaited for them any more."""
        # Without this, aiohttp complains on that loop.
        self._pool._close()

    async def _quiet(self) -> tuple[Connection, ResponseHandler, asyncio.Transport]:
        """Give a connection on which nothing has come since its last answer: it would pass for the next."""
        while True:
            connection = await self._pool.connect(self._to, [], _UNLIMITED)
            protocol, transport = connection.protocol, connection.transport
            was_used = protocol in self._asked
            if (
                protocol is not None
                and transport is not None
                and not protocol.should_close
                and not (was_used and _is_readable(transport))
            ):
                return connection, protocol, transport
            _abort(connection)
            if not was_used:
                raise aiohttp.ServerDisconnectedError

    def _head(self, method: str, address: yarl.URL, headers: Mapping[str, str], length: int) -> bytes:
        given, lines = self._written
        if given is not headers:
            # Requests that are not signed share theirs.
            lines = self._lines(headers)
            self._written = (headers, lines)
        target = str(address) if self._is_forwarded else address.raw_path_qs
        sized = f"Content-Length: {length}\r\n" if length or method not in _WITHOUT_BODY else ""
        return f"{method} {target} HTTP/1.1\r\n{lines}{sized}\r\n".encode()

    def _lines(self, headers: Mapping[str, str]) -> str:
        """
        Write the headers of a request.

        Raises:
            ValueError: One holds a character that would end it.
        """
        said = set(map(str.lower, headers))
        lines = [line for name, line in self._own.items() if name not in said]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if _FORBIDDEN.search("".join(lines)):
            raise ValueError("a header holds a control character")
        return "\r\n".join((*lines, ""))


def _is_readable(transport: asyncio.Transport) -> bool:
    """Tell whether something has come that the loop has not had time to read, or an end."""
    socket = transport.get_extra_info("socket")
    if sys.platform == "win32":
        return bool(select.select([socket], [], [], 0)[0])
    look = select.poll()
    look.register(socket, select.POLLIN)
    return bool(look.poll(0))


def _abort(connection: Connection) -> None:
    # Closed alone, a connection stays open until all is sent, and nobody may be reading.
    if connection.transport is not None:
        connection.transport.abort()
    connection.close()
