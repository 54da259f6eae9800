"""
A client of a Core in this process: the same bytes both ways, without an HTTP library in between.

openbox_core builds and signs a request, and reads an answer, exactly as for a remote Core. Only the object
that it posts through is another one: what httpx does to a request - parsing the address, merging headers,
looking for cookies - costs several times what a local Core takes to answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openbox_core.client import EvaluationClient

from .exchange import Exchange, current_exchange

if TYPE_CHECKING:
    from .transport import InProcessCore

__all__ = ("DirectClient", "WireAnswer")

_JSON = "application/json"


@dataclass(slots=True, eq=False)
class WireAnswer:
    """An answer, as far as openbox_core looks at one."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.content)


class DirectClient(EvaluationClient):
    """
    Asks `core` directly where a gate asks.

    Requests that no gate makes, such as those of openbox_core's hooks, go through the transport: it is there
    that their answers are hardened.
    """

    def __init__(self, core: InProcessCore, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._core = core

    # NB: a name of openbox_core that is not public. Should it change, requests take the transport again.
    def _async(self) -> Any:
        exchange = current_exchange()
        return super()._async() if exchange is None else _Line(self, self._api_url, exchange)

    async def carry(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request of a gate, and its answer."""
        return self._core.handle(method, path, headers, body)


class _Line:
    """What openbox_core posts through, for one question."""

    __slots__ = ("_base", "_client", "_exchange")

    def __init__(self, client: DirectClient, base: str, exchange: Exchange) -> None:
        self._client = client
        self._base = base
        self._exchange = exchange

    async def post(self, url: str, *, content: bytes, headers: Mapping[str, str]) -> WireAnswer:
        """One request with a body."""
        return await self._ask("POST", url, {"Content-Type": _JSON, **headers}, content)

    async def get(self, url: str, *, headers: Mapping[str, str]) -> WireAnswer:
        """One request without."""
        return await self._ask("GET", url, headers, b"")

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> WireAnswer:
        exchange, path = self._exchange, url.removeprefix(self._base)
        exchange.begin(path)
        try:
            status, answered, content = await self._client.carry(method, path, headers, body)
        except Exception as error:
            exchange.error = error
            raise
        exchange.status, exchange.body = status, content
        exchange.retry_after = _named(answered, "retry-after")
        return WireAnswer(status, answered, content)


def _named(headers: Mapping[str, str], wanted: str) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == wanted), None)
