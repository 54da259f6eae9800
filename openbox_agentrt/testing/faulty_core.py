"""A Core that can be made to misbehave, request by request."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..local_core import LocalCore
from .faults import Fault
from .http_server import LoopbackServer, Request, ResponseWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """Keep a request that arrived, and the fault that met it (``None``: it was answered properly)."""

    request: Request
    fault: Fault | None

    def json(self) -> Any:
        """Decode the body of the request."""
        return self.request.json()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Standing:
    path: str
    fault: Fault
    chance: float
    holding: bytes


class FaultyCore(LoopbackServer):
    """
    Run a real HTTP server that answers like Core, except where a fault is scheduled.

    Use it as a context manager, and give its `url` and `api_key` to the agent under test.

    Args:
        core: Answers the requests without a fault; ``None`` makes one that allows everything, and closes
            it in the end.
        keep: How many requests to remember, the latest ones; ``None`` all.
        seed: Decides which requests meet a fault that has a `chance`.
    """

    def __init__(self, core: LocalCore | None = None, *, keep: int | None = None, seed: int = 0) -> None:
        super().__init__()
        self._owns_core = core is None
        self.core = LocalCore() if core is None else core
        self._lock = threading.Lock()
        self._planned: deque[tuple[str, Fault]] = deque()
        self._standing: list[_Standing] = []
        self._seen: deque[SeenRequest] = deque(maxlen=keep)
        self._random = random.Random(seed)

    @property
    def api_key(self) -> str:
        return self.core.api_key

    @property
    def requests(self) -> list[SeenRequest]:
        """List every request that arrived, in order, also those that were never answered."""
        with self._lock:
            return list(self._seen)

    def plan(self, *faults: Fault, path: str = "") -> None:
        """
        Schedule faults, one for each of the next requests.

        Args:
            path: Only requests whose path contains this text meet these faults.
        """
        with self._lock:
            self._planned.extend((path, fault) for fault in faults)

    @contextmanager
    def always(
        self, fault: Fault, *, path: str = "", chance: float = 1.0, holding: bytes = b""
    ) -> Iterator[None]:
        """
        Let every request meet `fault`, while the block runs.

        A planned fault comes before it, and so does an inner block.

        Args:
            path: Only requests whose path contains this text meet the fault.
            chance: How likely a request meets it, from 0 to 1.
            holding: Only requests whose body holds these bytes meet the fault.
        """
        standing = _Standing(path=path, fault=fault, chance=chance, holding=holding)
        with self._lock:
            self._standing.append(standing)
        try:
            yield
        finally:
            with self._lock:
                self._standing.remove(standing)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Refuse connections, as if the server were not running."""
        self.refuse_connections()
        try:
            yield
        finally:
            self.accept_connections()

    def stop(self) -> None:
        super().stop()
        if self._owns_core:
            self.core.close()

    async def respond(self, request: Request, response: ResponseWriter) -> None:
        fault = self._meet(request)
        if fault is None:
            await response.answer(*await self._proper(request))
        else:
            await self._misbehave(fault, request, response)

    def _meet(self, request: Request) -> Fault | None:
        with self._lock:
            fault = self._take(request)
            self._seen.append(SeenRequest(request=request, fault=fault))
        return fault

    def _take(self, request: Request) -> Fault | None:
        path = request.path
        for entry in self._planned:
            if entry[0] in path:
                self._planned.remove(entry)
                return entry[1]
        for standing in reversed(self._standing):
            if standing.path not in path or standing.holding not in request.body:
                continue
            if standing.chance >= 1.0 or self._random.random() < standing.chance:
                return standing.fault
        return None

    async def _proper(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        return await self.core.ahandle(request.method, request.path, request.headers, request.body)

    async def _misbehave(self, fault: Fault, request: Request, response: ResponseWriter) -> None:
        if fault.wait_seconds > 0:
            await asyncio.sleep(fault.wait_seconds)
        status, headers, body = (200, {}, b"") if not fault.reaches_core else await self._proper(request)
        if fault.late_seconds > 0:
            await asyncio.sleep(fault.late_seconds)
        if fault.ending == "hang":
            await asyncio.Event().wait()
        if fault.ending in ("close", "reset"):
            await response.drop(reset=fault.ending == "reset")
        if status == 200:
            body = fault.rewrite(body)
        if fault.body is not None:
            headers = {**headers, "content-type": fault.content_type}
        headers = {**headers, **fault.headers}
        status = fault.status if fault.status is not None else status
        if fault.ending == "cut":
            await response.start(status, {**headers, "content-length": str(len(body))})
            await response.write(body[: len(body) // 2])
            await response.drop()
        await response.answer(status, headers, body)
