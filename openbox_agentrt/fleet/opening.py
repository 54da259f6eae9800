"""Opening a shared store by its URL."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from .errors import FleetConfigError
from .fleet import PATIENCE, Fleet
from .halts import HaltRows
from .worker import OnOutage

_REDIS = ("redis", "rediss", "unix")
_LOOKS_SECONDS = 5.0


def open_fleet(
    url: str,
    *,
    lease_seconds: float = 30,
    on_outage: OnOutage = "refuse",
    timeout_seconds: float = PATIENCE,
) -> Fleet:
    """
    Make the store that a URL names. It connects at first use.

    Args:
        url: ``sqlite:///fleet.db`` is a file beside the process, ``sqlite:////var/lib/fleet.db`` one with an
            absolute path. ``redis://host/0``, ``rediss://`` with TLS and ``unix://`` are servers that speak
            Redis's protocol; ``?namespace=`` keeps several fleets apart.
        lease_seconds: See `Fleet`.
        on_outage: See `Fleet`.
        timeout_seconds: See `Fleet`.

    Raises:
        FleetConfigError: The URL names no store, or an argument makes no sense.
        MissingExtraError: It is a server, and the extra ``redis`` is not installed.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        from .sqlite import SqliteFleet

        return SqliteFleet(
            sqlite_path(url),
            lease_seconds=lease_seconds,
            on_outage=on_outage,
            timeout_seconds=timeout_seconds,
        )
    if scheme in _REDIS:
        made: Fleet = import_module(".redis.fleet", __package__).RedisFleet(
            url, lease_seconds=lease_seconds, on_outage=on_outage, timeout_seconds=timeout_seconds
        )
        return made
    raise FleetConfigError(
        f"{url!r} names no store: write sqlite:///fleet.db, redis://host/0 or rediss://host/0"
    )


def open_halts(url: str, *, create: bool = False) -> HaltRows:
    """
    Open the halts of the store that a URL names. It connects at first use.

    Args:
        url: As `open_fleet` takes it.
        create: Whether a file that is not there is made.

    Raises:
        FleetConfigError: The URL names no store.
        MissingExtraError: It is a server, and the extra ``redis`` is not installed.
    """
    if urlsplit(url).scheme == "sqlite":
        from .sqlite import SqliteHalts, SqliteLine

        path = Path(sqlite_path(url)).absolute()
        return SqliteHalts(SqliteLine(path, timeout_seconds=_LOOKS_SECONDS, create=create))
    opened: HaltRows = import_module(".redis.fleet", __package__).open_redis_halts(url, _LOOKS_SECONDS)
    return opened


def sqlite_path(url: str) -> str:
    """
    Read the path out of a URL of a file.

    Raises:
        FleetConfigError: It has none.
    """
    path = url.removeprefix("sqlite:///")
    if path in ("", url):
        raise FleetConfigError(f"{url!r} names no file: write sqlite:///fleet.db or sqlite:////abs/fleet.db")
    return path
