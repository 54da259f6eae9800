"""A store on a server, for workers on many machines."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

from ..._extras import require
from ..errors import FleetConfigError
from ..fleet import PATIENCE, Fleet
from ..halts import HaltRows
from ..steps import StoreLine
from ..worker import OnOutage
from .line import RedisLine

DEFAULT_NAMESPACE = "default"


class RedisFleet(Fleet):
    """
    Share contracts between machines, on Redis, Valkey, or any server with their protocol and scripts.

    All keys of a namespace carry one hash tag, so a namespace lives on one shard of a cluster.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://`` with TLS, or ``unix:///path``; a query
            ``?namespace=acme`` names the fleet, ``default`` without one.
        lease_seconds: See `Fleet`.
        on_outage: See `Fleet`.
        timeout_seconds: See `Fleet`.

    Raises:
        FleetConfigError: The URL makes no sense.
        MissingExtraError: The extra ``redis`` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        lease_seconds: float = 30,
        on_outage: OnOutage = "refuse",
        timeout_seconds: float = PATIENCE,
    ) -> None:
        super().__init__(lease_seconds=lease_seconds, on_outage=on_outage, timeout_seconds=timeout_seconds)
        require("redis", extra="redis")
        self._server, self.namespace = split_url(url)
        self._url = url

    @property
    def url(self) -> str:
        return without_password(self._url)

    def _connect(self) -> StoreLine:
        return self._line()

    def _halt_rows(self) -> HaltRows:
        return RedisHalts(self._line(), self.namespace)

    def _line(self) -> RedisLine:
        return RedisLine(self._server, self.namespace, timeout_seconds=self.timeout_seconds)


class RedisHalts:
    """Keep halts in a hash of a server."""

    def __init__(self, line: RedisLine, namespace: str) -> None:
        self._line = line
        self._key = f"{{obx:{namespace}}}:halts"

    def read(self) -> dict[str, bytes]:
        told = self._line.execute([("HGETALL", self._key)])[0]
        return {told[i].decode(): told[i + 1] for i in range(0, len(told), 2)}

    def keep(self, name: str, told: bytes) -> None:
        self._line.execute([("HSET", self._key, name, told)])

    def close(self) -> None:
        self._line.close()


def open_redis_halts(url: str, timeout_seconds: float) -> RedisHalts:
    """Open the halts of a server. Raises what `RedisFleet` does."""
    server, namespace = split_url(url)
    return RedisHalts(RedisLine(server, namespace, timeout_seconds=timeout_seconds), namespace)


def split_url(url: str) -> tuple[str, str]:
    """
    Split a URL into the server's and the namespace.

    Raises:
        FleetConfigError: It names no server, or the namespace could be taken for another one.
    """
    parts = urlsplit(url)
    try:
        known = parts.scheme in ("redis", "rediss", "unix") and (parts.port or 1) > 0
    except ValueError as error:
        raise FleetConfigError(f"{without_password(url)!r} has no such port as it names") from error
    if not known or not (parts.hostname or parts.path):
        raise FleetConfigError(f"{without_password(url)!r} names no server: write redis://host:6379/0")
    query = parse_qsl(parts.query)
    named = [value for key, value in query if key == "namespace"]
    namespace = named[-1] if named else DEFAULT_NAMESPACE
    if not namespace or set(namespace) & set("{} \n"):
        raise FleetConfigError(f"namespace {namespace!r} is empty or has braces or blanks in it")
    rest = urlencode([(key, value) for key, value in query if key != "namespace"])
    # Not by `urlunsplit`, which leaves the slashes out where there is no host, as for a socket.
    return url.partition("?")[0] + (f"?{rest}" if rest else ""), namespace


def without_password(url: str) -> str:
    """Give a URL without the secret in it."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    host = parts.netloc.rpartition("@")[2]
    return url.replace(f"//{parts.netloc}", f"//{user}@{host}" if user else f"//{host}", 1)
