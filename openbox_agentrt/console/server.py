"""A console over HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._extras import require
from .._loopback import is_loopback
from ..local_core.server import bound_to, in_thread
from .sources import Sources

DEFAULT_PORT = 8087


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    Say where a console is served.

    Attributes:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        names: Further names under which browsers reach it.
        allow_other_machines: Accept an address that other machines can reach. It needs a certificate.
        tls_cert: A certificate with its chain, and its key if `tls_key` is not given.
        tls_key: The key of the certificate.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    names: tuple[str, ...] = ()
    allow_other_machines: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None


def serve_console(sources: Sources, place: Place, *, on_link: Callable[[str], object]) -> None:
    """
    Serve a console until the process is interrupted; then raises ``KeyboardInterrupt``.

    Args:
        on_link: Called with each link that signs a browser in, the first once it can be reached.

    Raises:
        NotLoopbackError: The address is not this machine alone, and there is no leave or no certificate.
        OSError: The address is in use or not one of this machine.
        MissingExtraError: The extra ``console`` is not installed.
    """
    with _bound(place) as bound:
        server, offer = _server(sources, place, bound, on_link)
        offer()
        server.run(sockets=[bound])
    raise KeyboardInterrupt


@contextmanager
def running_console(sources: Sources, place: Place, *, on_link: Callable[[str], object]) -> Iterator[None]:
    """Serve a console from a thread of its own while the block runs; like `serve_console` otherwise."""
    with _bound(place) as bound:
        server, offer = _server(sources, place, bound, on_link)
        with in_thread(server, bound, name="console") as thread:
            while not server.started and thread.is_alive():
                time.sleep(0.005)
            offer()
            yield


def _bound(place: Place) -> AbstractContextManager[socket.socket]:
    # Links that sign in cross the network, so other machines need a certificate as well.
    allowed = place.allow_other_machines and bool(place.tls_cert)
    return bound_to(place.host, place.port, allow_other_machines=allowed)


def _server(
    sources: Sources, place: Place, bound: socket.socket, on_link: Callable[[str], object]
) -> tuple[Any, Callable[[], None]]:
    uvicorn = require("uvicorn", extra="console")
    for module in ("jinja2", "starlette"):
        require(module, extra="console")
    from .access import Access
    from .app import application

    port = bound.getsockname()[1]
    access = Access(
        _hosts(place, port),
        secure=place.tls_cert is not None,
        now=sources.now,
        tell=on_link,
        kept_in=Path(f"{sources.reader.path}.console"),
    )
    local = "This machine" if is_loopback(place.host) else "Other machines too"
    app = application(sources, access, f"{local}, port {port}")
    config = uvicorn.Config(
        app,
        lifespan="on",
        # Nothing of a request stands in a log: addresses hold one-time links.
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=1,
        ssl_certfile=place.tls_cert,
        ssl_keyfile=place.tls_key,
    )
    return uvicorn.Server(config), access.offer_link


def _hosts(place: Place, port: int) -> Iterable[str]:
    own = f"[{place.host}]" if ":" in place.host else place.host
    names = [*place.names, own]
    if is_loopback(place.host):
        names = [own, "127.0.0.1", "localhost", *place.names]
    return dict.fromkeys(f"{name}:{port}" for name in names)
