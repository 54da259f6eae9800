"""
The line to a remote Core: exact bytes out, and a bounded, decoded answer back.

httpx and httpcore take several times what Core's answer takes to read, so what a gate asks goes over aiohttp.
Each event loop has connections of its own. What goes wrong is told in httpx's words: openbox_core, its hooks
and the gate know those.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from ..._loopback import LOOPBACK_HOSTS
from .exchange import MAX_ANSWER_BYTES, AnswerTooLargeError, CutAnswerError, is_outage_status
from .loops import PerLoop

if TYPE_CHECKING:
    import aiohttp
    import yarl

    from .connections import Connections


_MOST_ADDRESSES: Final = 32
_CODINGS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def http_line(base: str) -> HttpLine | None:
    """Make a line to the Core at `base`; None where the way leads through a proxy that only httpx knows."""
    proxy = _proxy_for(base)
    if proxy is not None and urlsplit(proxy).scheme not in ("http", "https"):
        return None
    return HttpLine(base, proxy=proxy)


class HttpLine:
    """
    Carries requests to one Core. Safe to use from any number of loops and threads, and after a fork.

    Args:
        base: Address of Core; may have a path.
        proxy: Address of an HTTP proxy.
    """

    waits: Final = True

    def __init__(self, base: str, *, proxy: str | None = None) -> None:
        # Written as httpx does, which carries the rest: with escapes, and without dots.
        self.base = str(httpx.URL(base)).rstrip("/")
        self._proxy = proxy
        self._tls: ssl.SSLContext | None = None
        self._connections = PerLoop(self._open, _close, _let_go)
        self._addresses: dict[str, yarl.URL] = {}

    async def carry(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """
        Make one request, without a limit of time.

        Args:
            path: What follows `base`, from its slash on.

        Returns:
            Status, headers and body of the answer, whatever they say. Redirects are not followed.

        Raises:
            httpx.TransportError: There was no answer; a `CutAnswerError` if there was one that is not whole.
            AnswerTooLargeError: There was too much of one.
        """
        import aiohttp
        from aiohttp.http import HttpProcessingError

        url = self._addresses.get(path) or self._address(path)
        connections = await self._connections.get()
        try:
            return await connections.ask(method, url, headers, body, _read)
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as error:
            raise _translated(error) from error

    async def aclose(self) -> None:
        """Close the running loop's connections, and ask the other running loops to close theirs."""
        await self._connections.aclose()

    def _address(self, path: str) -> yarl.URL:
        import yarl

        if not path.startswith("/"):
            raise httpx.UnsupportedProtocol(f"not a path of core's: {path!r}")
        try:
            url = yarl.URL(self.base + path, encoded=True)
        except ValueError as error:
            raise httpx.UnsupportedProtocol(str(error)) from error
        if len(self._addresses) < _MOST_ADDRESSES:
            self._addresses[path] = url
        return url

    def _open(self) -> Connections:
        import yarl

        from .connections import Connections

        if self._tls is None:
            # As httpx does: SSL_CERT_FILE, SSL_CERT_DIR, else certifi.
            self._tls = httpx.create_ssl_context()
        proxy = None if self._proxy is None else yarl.URL(self._proxy)
        return Connections(yarl.URL(self.base), proxy=proxy, tls=self._tls)


async def _close(connections: Connections) -> None:
    await connections.aclose()


def _let_go(connections: Connections) -> None:
    connections.let_go()


async def _read(status: int, headers: Mapping[str, str], content: aiohttp.StreamReader) -> bytes:
    """Read a body, or say that an answer came of which its end is missing."""
    import aiohttp
    from aiohttp.http import HttpProcessingError

    coding = headers.get("Content-Encoding", "identity").strip().lower()
    try:
        return await (_whole(content) if coding == "identity" else _unfolded(content, coding))
    except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError, zlib.error) as error:
        kind = httpx.ReadError if is_outage_status(status) else CutAnswerError
        raise kind(_words(error)) from error


async def _whole(content: aiohttp.StreamReader) -> bytes:
    # Most answers are here already, in one piece.
    whole = await content.readany()
    if content.at_eof() and len(whole) <= MAX_ANSWER_BYTES:
        return whole
    body = bytearray()
    _grow(body, whole)
    async for piece in content.iter_any():
        _grow(body, piece)
    return bytes(body)


async def _unfolded(content: aiohttp.StreamReader, coding: str) -> bytes:
    if coding not in _CODINGS:
        raise ValueError(f"the answer is in {coding!r}")
    unfold, body = zlib.decompressobj(_CODINGS[coding]), bytearray()
    async for piece in content.iter_any():
        # One byte more than is allowed, however much a small piece would unfold to.
        _grow(body, unfold.decompress(piece, MAX_ANSWER_BYTES + 1 - len(body)))
        if unfold.unused_data:
            raise ValueError("the answer goes on after its end")
    if not unfold.eof:
        raise ValueError("the answer is cut off")
    return bytes(body)


def _grow(body: bytearray, piece: bytes) -> None:
    if len(body) + len(piece) > MAX_ANSWER_BYTES:
        raise AnswerTooLargeError
    body += piece


def _words(error: Exception) -> str:
    # aiohttp shows what it could not read, from the second line on.
    text = str(getattr(error, "message", "") or error).partition("\n")[0].rstrip(":")
    return text or type(error).__name__


def _translated(error: Exception) -> httpx.TransportError:
    """Say in httpx's words why there is no answer."""
    import aiohttp
    from aiohttp.http import HttpProcessingError

    text = _words(error)
    match error:
        case aiohttp.InvalidURL():
            return httpx.UnsupportedProtocol(f"invalid address: {text}")
        case aiohttp.ClientProxyConnectionError():
            return httpx.ProxyError(text)
        case aiohttp.ClientHttpProxyError():
            return httpx.ProxyError(f"the proxy answered {error.status}")
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError(text)
        case aiohttp.ServerDisconnectedError(message=str()):
            return httpx.RemoteProtocolError(text)  # not a word of an answer
        case aiohttp.ServerDisconnectedError():
            return CutAnswerError("the connection ended within the head of the answer")
        case HttpProcessingError():
            return CutAnswerError(f"the answer is no HTTP: {text}")
        case aiohttp.ClientError() | OSError():
            return httpx.ReadError(text)
    # A header that cannot be sent.
    return httpx.LocalProtocolError(text)


def _proxy_for(base: str) -> str | None:
    """Give the proxy that the environment, or the system, names for `base`; none for this machine."""
    parts, named = urlsplit(base), getproxies()
    if parts.hostname in LOOPBACK_HOSTS:
        return None
    host = parts.netloc.rpartition("@")[2]
    # NB: `proxy_bypass` knows IPv6 addresses only as they are written, in brackets or not.
    if not named or proxy_bypass(host) or proxy_bypass(host.replace("[", "").replace("]", "")):
        return None
    proxy = named.get(parts.scheme) or named.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
