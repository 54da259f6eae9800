"""A local Core over HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._extras import require
from .._loopback import is_loopback
from .._picklable import PicklableError
from .core import LocalCore

DEFAULT_PORT = 8086


class NotLoopbackError(PicklableError, ValueError):
    """
    A local Core was to be served where other machines can reach it. It was not.

    Attributes:
        host: The address that was asked for.
        remedy: What to do instead.
    """

    def __init__(self, *, host: str) -> None:
        self.host = host
        self.remedy = "use 127.0.0.1, or allow other machines explicitly"
        super().__init__(f"host {host!r} can be reached by other machines")


def asgi_app(core: LocalCore) -> Any:
    """
    Make a Starlette application of `core`.

    While a request waits for the policy, others are answered.

    Raises:
        MissingExtraError: The extra ``local`` is not installed.
    """
    applications = require("starlette.applications", extra="local")
    routing = require("starlette.routing", extra="local")
    # A mount, and not a route: a route answers a method that it does not know by itself.
    return applications.Starlette(routes=[routing.Mount("/", app=_Endpoint(core))])


def serve(
    core: LocalCore,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    allow_other_machines: bool = False,
    on_ready: Callable[[str], object] | None = None,
) -> None:
    """
    Serve `core` until the process is interrupted; then raises ``KeyboardInterrupt``.

    Args:
        port: 0 takes a free one.
        allow_other_machines: Accept a `host` that other machines can reach. The traffic is not encrypted.
        on_ready: Called with the URL once it can be reached.

    Raises:
        NotLoopbackError: `host` is not this machine alone, and `allow_other_machines` is not set.
        OSError: The address is in use or not one of this machine.
        MissingExtraError: The extra ``local`` is not installed.
    """
    with bound_to(host, port, allow_other_machines=allow_other_machines) as bound:
        server = _uvicorn(core)
        if on_ready is not None:
            on_ready(url_of(bound))
        server.run(sockets=[bound])
    # It was interrupted: nothing else ends it. Not every loop says so when the server has ended by then.
    raise KeyboardInterrupt


@contextmanager
def running(core: LocalCore, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """
    Serve `core` from a thread of its own while the block runs; yields the URL.

    Raises:
        OSError: The address is in use.
        MissingExtraError: The extra ``local`` is not installed.
    """
    with bound_to(host, port) as bound, in_thread(_uvicorn(core), bound, name="local-core"):
        yield url_of(bound)


@contextmanager
def in_thread(server: Any, bound: socket.socket, *, name: str) -> Iterator[threading.Thread]:
    """Run a uvicorn server in a thread of its own while the block runs."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name=name, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join()


def url_of(bound: socket.socket) -> str:
    """Give the URL of a server on this socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if bound.family == socket.AF_INET6 else f"http://{host}:{port}"


@contextmanager
def bound_to(host: str, port: int, *, allow_other_machines: bool = False) -> Iterator[socket.socket]:
    """
    Listen on an address before a server runs.

    Who connects early waits instead of being refused, and an address in use is an error here rather than a
    log line of the server.

    Raises:
        NotLoopbackError: `host` is not this machine alone, and `allow_other_machines` is not set.
        OSError: The address is in use or not one of this machine.
    """
    if not allow_other_machines and not is_loopback(host):
        raise NotLoopbackError(host=host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as bound:
        yield bound


def _uvicorn(core: LocalCore) -> Any:
    uvicorn = require("uvicorn", extra="local")
    config = uvicorn.Config(
        asgi_app(core),
        lifespan="off",
        # The logging of the process is not this server's to set up.
        log_config=None,
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


class _Endpoint:
    """Hands every request to a core, as it is."""

    def __init__(self, core: LocalCore) -> None:
        self._core = core

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import Response

        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > self._core.max_body_bytes:
                    # Enough to be refused for its size; the rest is not worth the memory.
                    break
        except ClientDisconnect:
            # Half a request is none, and nobody is left to tell.
            return
        status, headers, answer = await self._core.ahandle(
            request.method, scope["path"], request.headers, bytes(body)
        )
        await Response(answer, status, headers)(scope, receive, send)
