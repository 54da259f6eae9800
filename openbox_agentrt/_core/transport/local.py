"""
A client of a Core in this process: the same bytes both ways, without an HTTP library in between.

What httpx does to a request - parsing the address, merging headers, looking for cookies - costs several
times what a local Core takes to answer, and so do the copies and the second reading that openbox_core makes.
So an event is validated by openbox_core, written and carried here. Where requests are signed, and for
everything but events, openbox_core makes the request and reads the answer exactly as for a remote Core; only
the object that it posts through is another one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from openbox_core.client import EVALUATE_PATH, EvaluationClient
from openbox_core.identity import build_auth_headers
from openbox_core.serialization import apply_redaction, serialize_body, to_json_safe
from openbox_core.validation.registry import validate_lifecycle

from .exchange import Exchange, current_exchange

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from ..._options.in_process import InProcessCore

__all__ = ("DirectClient", "WireAnswer")

_JSON: Final = "application/json"
_SIGNING: Final = ("identity", "okta_bootstrap_private_key", "workload_private_key")


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

    def __init__(self, core: InProcessCore, api_url: str, api_key: str, **settings: Any) -> None:
        super().__init__(api_url, api_key, **settings)
        self._core = core
        self.signs: Final = any(settings.get(name) is not None for name in _SIGNING)
        sdk = {name: settings.get(name) for name in ("sdk_version", "sdk_engine", "sdk_language")}
        known = {name: value for name, value in sdk.items() if value is not None}
        self._headers: Final = {"Content-Type": _JSON, **build_auth_headers(api_key, **known)}

    async def ask(self, event: EventEnvelope, stamp: str, *, redact_keys: Collection[str] = ()) -> Exchange:
        """
        Put `event` to Core, with the time `stamp` unless it has one. Only for a client that does not sign.

        Raises:
            ContractError: It is not an event that openbox_core would send.
            RecursionError: It is nested too deeply to be written.
        """
        validate_lifecycle(event)
        payload = event.to_payload_dict()
        if not event.timestamp:
            payload["timestamp"] = stamp
        if redact_keys:
            payload, _ = apply_redaction(payload, frozenset(redact_keys))
        exchange = Exchange(path=EVALUATE_PATH)
        body = _written(payload)
        try:
            status, headers, exchange.body = await self.carry("POST", EVALUATE_PATH, {**self._headers}, body)
        except Exception as error:  # noqa: BLE001
            # For whoever reads the exchange: nothing of it is an ALLOW.
            exchange.error = error
            return exchange
        exchange.status = status
        if status != 200:
            exchange.retry_after = _named(headers or {}, "retry-after")
        return exchange

    # NB: a name of openbox_core that is not public. Should it change, requests take the transport again.
    def _async(self) -> Any:
        exchange = current_exchange()
        return super()._async() if exchange is None else _Line(self, self._api_url, exchange)

    async def carry(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request of a gate, and its answer."""
        # In an empty context: nothing that Core does belongs to the activity that it is asked about.
        return Context().run(self._core.handle, method, path, headers, body)


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


def _written(payload: dict[str, Any]) -> bytes:
    try:
        return _ENCODER.encode(payload)
    except (TypeError, ValueError):
        # An id that holds half a character. openbox_core writes that as an escape.
        return serialize_body(to_json_safe(payload, exclude_none=False))


def _named(headers: Mapping[str, str], wanted: str) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == wanted), None)


_ENCODER: Final = msgspec.json.Encoder()
