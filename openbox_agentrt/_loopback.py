"""Tell this machine's own addresses from others: they are asked through no proxy, whatever is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that may be reached over plain HTTP; the same three as in openbox_core."""


def is_loopback(host: str) -> bool:
    """Tell whether a host, by name or address, is this machine."""
    import ipaddress

    try:
        return host in LOOPBACK_HOSTS or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def opener_for(url: str, *handlers: Any) -> OpenerDirector:
    """Make what opens a URL, by the proxy that is configured unless the URL is on this machine."""
    # Loaded here: it takes longer than the rest of a process that opens nothing.
    from urllib.request import ProxyHandler, build_opener

    direct = (ProxyHandler({}),) if is_loopback(urlsplit(url).hostname or "") else ()
    return build_opener(*direct, *handlers)
