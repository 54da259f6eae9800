"""Look at a store before anything depends on it: whether it can be used, and what somebody should know."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from .errors import FleetConfigError, FleetUnavailableError
from .opening import sqlite_path
from .sqlite import SqliteLine
from .steps import Beat, NoAnswerError
from .survey import Survey, survey

_log = logging.getLogger("openbox_agentrt.fleet")

_LOOKING = Beat(worker="looking", lease_us=0)
"""Changes nothing: nobody of that name is a worker."""


def check_store(url: str, *, timeout_seconds: float = 1.0) -> tuple[str, ...]:
    """
    Look whether the store that a URL names can be used. The calling thread waits.

    Args:
        url: See `open_fleet`.
        timeout_seconds: Seconds to wait for an answer.

    Returns:
        What somebody should know of it, such as that nothing is written to disk.

    Raises:
        FleetConfigError: It cannot be used: a wrong password, no folder, an eviction policy that forgets.
        FleetUnavailableError: It gives no answer now, which may be over in a moment.
    """
    try:
        if urlsplit(url).scheme == "sqlite":
            path = Path(sqlite_path(url)).absolute()
            with closing(SqliteLine(path, timeout_seconds=timeout_seconds)) as line:
                line.run([_LOOKING])
            return ()
        with closing(survey(url, timeout_seconds=timeout_seconds)) as store:
            store.line.run([_LOOKING])
            return _doubts(store)
    except NoAnswerError as error:
        raise FleetUnavailableError(str(error), retry_after=1.0) from error


def _doubts(store: Survey) -> tuple[str, ...]:
    try:
        health = store.health()
    except FleetConfigError as error:
        # Managed servers do not let everybody look; then nothing is known against it.
        _log.debug("the store does not say how it is set up: %s", error)
        return ()
    if health.faults:
        raise FleetConfigError("; ".join(health.faults))
    return tuple(health.doubts)
