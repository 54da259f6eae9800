"""
The transports that openbox_core's client is given: the wire to a remote Core, or to one in this process.

A transport adds what that client leaves out - the content type, a bound on the size and the duration of an
answer, a record of what happened - and puts the answers to openbox_core's own HTTP and database hooks,
which no gate reads, in an order that its lenient parser cannot misread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import httpx

from ..._breaker import Breaker, Permit
from ..hooks.answers import hardened, is_completed_stage
from ..parsing import UnknownVerdict
from .clients import LoopClients, ProcessClient
from .direct import LocalLine
from .exchange import (
    EVALUATE,
    MAX_ANSWER_BYTES,
    AnswerTooLargeError,
    CutAnswerError,
    current_exchange,
    is_outage_status,
)

if TYPE_CHECKING:
    from ..._options.in_process import InProcessCore
    from .http import HttpLine


class _Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Do for both ways everything but carrying the bytes."""

    def __init__(self, *, breaker: Breaker, on_unknown: UnknownVerdict, fail_closed: bool) -> None:
        self._fail_closed = fail_closed
        self._breaker = breaker
        self._on_unknown = on_unknown

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        permit = self._begin(request)
        try:
            response = self._carry(request)
        except Exception as error:
            self._failed(error, permit)
            said = self._said_by(error, request, permit)
            if said is None:
                raise
            return said
        return self._finish(request, response, permit)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        permit = self._begin(request)
        try:
            response = await self._carry_async(request)
        except Exception as error:
            self._failed(error, permit)
            said = self._said_by(error, request, permit)
            if said is None:
                raise
            return said
        except BaseException:
            # Cancelled: that says nothing about Core.
            if permit is not None:
                self._breaker.abandoned(permit)
            raise
        return self._finish(request, response, permit)

    def _carry(self, request: httpx.Request) -> httpx.Response:
        raise NotImplementedError

    async def _carry_async(self, request: httpx.Request) -> httpx.Response:
        raise NotImplementedError

    def _begin(self, request: httpx.Request) -> Permit | None:
        if request.method == "POST":
            request.headers.setdefault("Content-Type", "application/json")
        exchange = current_exchange()
        if exchange is not None:
            exchange.begin(request.url.path)
            return None  # the gate asks the breaker itself
        if not request.url.path.endswith(EVALUATE):
            return None
        permit = self._breaker.to_tell() if is_completed_stage(request) else self._breaker.to_ask()
        if permit is None:
            raise httpx.ConnectError("not told: core has not been answering", request=request)
        if permit.limit is not None:
            request.extensions = {**request.extensions, "timeout": httpx.Timeout(permit.limit).as_dict()}
        return permit

    def _failed(self, error: Exception, permit: Permit | None) -> None:
        exchange = current_exchange()
        if exchange is not None:
            exchange.error = error
        if permit is not None:
            self._breaker.failed(permit)

    def _said_by(
        self, error: Exception, request: httpx.Request, permit: Permit | None
    ) -> httpx.Response | None:
        if permit is None or not isinstance(error, AnswerTooLargeError | CutAnswerError):
            return None
        # Core answered, and nobody can tell what: an empty answer is read as a no, an outage may pass.
        return self._hardened(request, httpx.Response(200, request=request))

    def _finish(
        self, request: httpx.Request, response: httpx.Response, permit: Permit | None
    ) -> httpx.Response:
        exchange = current_exchange()
        if exchange is not None:
            exchange.status = response.status_code
            exchange.retry_after = response.headers.get("Retry-After")
            exchange.body = response.content
            return response
        if permit is None:
            return response
        if is_outage_status(response.status_code):
            self._breaker.failed(permit)
        else:
            self._breaker.answered()
        return self._hardened(request, response)

    def _hardened(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        return hardened(request, response, on_unknown=self._on_unknown, fail_closed=self._fail_closed)


class CoreTransport(_Transport):
    """
    The wire to a remote Core.

    Args:
        line: Carries the asynchronous requests to Core itself; None leaves them to httpx.
        total_seconds: Time for one request, however slowly its answer drips.
        clock: Monotone time in seconds.
    """

    def __init__(
        self,
        *,
        breaker: Breaker,
        line: HttpLine | None = None,
        on_unknown: UnknownVerdict = "block",
        fail_closed: bool = False,
        total_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(breaker=breaker, on_unknown=on_unknown, fail_closed=fail_closed)
        self._line = line
        self._total = total_seconds
        self._clock = clock
        self._clients = LoopClients()
        self._client = ProcessClient()

    def _carry(self, request: httpx.Request) -> httpx.Response:
        ends = self._clock() + self._total
        _unpacked(request)
        response: httpx.Response | None = None
        body = bytearray()
        try:
            response = self._client.get().send(request, stream=True, auth=None, follow_redirects=False)
            _check_unpacked(response)
            for chunk in response.iter_raw():
                _grow(body, chunk)
                if self._clock() > ends:
                    raise httpx.ReadTimeout(f"no whole answer in {self._total:g} s", request=request)
        except (httpx.ReadError, httpx.RemoteProtocolError, httpx.DecodingError) as error:
            raise _told_apart(error, request, response) from error
        finally:
            if response is not None:
                response.close()
        return _whole(request, response.status_code, response.headers.multi_items(), bytes(body))

    async def _carry_async(self, request: httpx.Request) -> httpx.Response:
        try:
            async with asyncio.timeout(_seconds_for(request, self._total)):
                if self._line is not None and str(request.url).startswith(f"{self._line.base}/"):
                    return await self._over(self._line, request)
                return await self._elsewhere(request)
        except TimeoutError:
            raise httpx.ReadTimeout(f"no whole answer in {self._total:g} s", request=request) from None

    async def _over(self, line: HttpLine, request: httpx.Request) -> httpx.Response:
        path = str(request.url).removeprefix(line.base)
        headers = {name: value for name, value in request.headers.items() if name not in _MADE_BY_THE_LINE}
        status, answered, body = await line.carry(request.method, path, headers, await request.aread())
        return _whole(request, status, answered.items(), body)

    async def _elsewhere(self, request: httpx.Request) -> httpx.Response:
        _unpacked(request)
        async with self._clients.turn() as client:
            response: httpx.Response | None = None
            body = bytearray()
            try:
                response = await client.send(request, stream=True, auth=None, follow_redirects=False)
                _check_unpacked(response)
                async for chunk in response.aiter_raw():
                    _grow(body, chunk)
            except (httpx.ReadError, httpx.RemoteProtocolError, httpx.DecodingError) as error:
                raise _told_apart(error, request, response) from error
            finally:
                if response is not None:
                    await response.aclose()
        return _whole(request, response.status_code, response.headers.multi_items(), bytes(body))

    def close(self) -> None:
        self._client.close()

    async def aclose(self) -> None:
        self._client.close()
        await self._clients.aclose()


class LocalCoreTransport(_Transport):
    """The way to a Core in this process, without a socket."""

    def __init__(
        self,
        core: InProcessCore,
        *,
        breaker: Breaker,
        on_unknown: UnknownVerdict = "block",
        fail_closed: bool = False,
    ) -> None:
        super().__init__(breaker=breaker, on_unknown=on_unknown, fail_closed=fail_closed)
        self._core = core
        self._line = LocalLine(core)

    def _carry(self, request: httpx.Request) -> httpx.Response:
        status, headers, body = self._core.handle(
            request.method, request.url.path, request.headers, request.read()
        )
        return httpx.Response(status, headers=dict(headers), content=body, request=request)

    async def _carry_async(self, request: httpx.Request) -> httpx.Response:
        status, headers, body = await self._line.carry(
            request.method, request.url.path, request.headers, await request.aread()
        )
        return httpx.Response(status, headers=dict(headers), content=body, request=request)


def _unpacked(request: httpx.Request) -> None:
    # NB: httpx takes what unfolds for the whole of a packed answer, and drops what comes behind it.
    request.headers["Accept-Encoding"] = "identity"


def _check_unpacked(response: httpx.Response) -> None:
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding != "identity":
        raise httpx.DecodingError(f"the answer is in {coding!r}", request=response.request)


def _told_apart(
    error: httpx.RequestError, request: httpx.Request, response: httpx.Response | None
) -> httpx.RequestError:
    """Tell an answer that is not whole, or no HTTP, from an outage."""
    if response is None:
        # httpx has one error for words that are no HTTP and for silence, and tells them apart in its text.
        silent = not isinstance(error, httpx.RemoteProtocolError) or "without sending" in str(error)
    else:
        silent = is_outage_status(response.status_code)
    return error if silent else CutAnswerError(str(error), request=request)


def _grow(body: bytearray, chunk: bytes) -> None:
    if len(body) + len(chunk) > MAX_ANSWER_BYTES:
        raise AnswerTooLargeError
    body += chunk


def _seconds_for(request: httpx.Request, total: float) -> float:
    seconds = request.extensions.get("timeout", {}).get("read")
    return total if seconds is None else min(total, seconds)


def _whole(
    request: httpx.Request, status: int, headers: Iterable[tuple[str, str]], body: bytes
) -> httpx.Response:
    # The body is decoded already, and its length is another one.
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    kept = [(name, value) for name, value in headers if name.lower() not in dropped]
    return httpx.Response(status, headers=kept, content=body, request=request)


_MADE_BY_THE_LINE: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "transfer-encoding"}
)
