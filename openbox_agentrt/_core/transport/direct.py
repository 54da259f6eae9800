"""
A client that asks Core over a line: the same bytes both ways, and nothing in between that need not be.

An event is validated by openbox_core, written once, carried, and read once by the gate; where requests are
signed, openbox_core writes it with its signature. For everything but events, and where an identity has to be
fetched first, openbox_core makes the request and reads the answer; only the object that it posts through is
another one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from openbox_core.client import EVALUATE_PATH, EVALUATE_PATH_V2, EvaluationClient
from openbox_core.identity import AgentIdentity, build_auth_headers, prepare_signed_request
from openbox_core.identity_okta import OktaAgentIdentity, prepare_okta_signed_request
from openbox_core.serialization import apply_redaction, serialize_body, to_json_safe
from openbox_core.validation.registry import validate_lifecycle

from ..._options.in_process import InProcessCore, WaitingCore
from .exchange import Exchange, current_exchange

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope


Answered = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body of an answer."""

_JSON: Final = "application/json"
_FETCHING: Final = ("okta_bootstrap_private_key", "workload_private_key")


@dataclass(slots=True, eq=False)
class WireAnswer:
    """An answer, as far as openbox_core looks at one."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Decode the body as JSON."""
        return json.loads(self.content)


class Line(Protocol):
    """
    Carries requests to one Core.

    Attributes:
        waits: Whether an answer may take time.
    """

    @property
    def waits(self) -> bool: ...

    async def carry(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answered:
        """Make one request to the Core; give status, headers and body of its answer."""

    async def aclose(self) -> None:
        """Close what is open. A later request opens it again."""


class LocalLine:
    """The line to a Core in this process."""

    def __init__(self, core: InProcessCore) -> None:
        self._core = core
        self._waiting = core if isinstance(core, WaitingCore) and core.waits else None

    @property
    def waits(self) -> bool:
        return self._waiting is not None

    async def carry(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answered:
        """Make one request to the Core; give status, headers and body of its answer."""
        own = dict(headers)  # a Core may change them, and other requests share them
        if self._waiting is not None:
            return await self._waiting.ahandle(method, path, own, body)
        # In an empty context: nothing that Core does belongs to the activity that it is asked about.
        return Context().run(self._core.handle, method, path, own, body)

    async def aclose(self) -> None:
        """Leave the Core open: whoever made it closes it."""


class DirectClient(EvaluationClient):
    """
    Asks over `line` where a gate asks.

    Requests that no gate makes, such as those of openbox_core's hooks, go through the transport: it is there
    that their answers are hardened. So does everything where there is no line.

    Args:
        line: The way to Core; None where only httpx knows it.

    Attributes:
        asks: Whether `ask` can be used: there is a line, and nothing has to be fetched before a request.
    """

    def __init__(self, line: Line | None, api_url: str, api_key: str, **settings: Any) -> None:
        super().__init__(api_url, api_key, **settings)
        self.line = line
        self._waits = line is not None and line.waits
        self.asks: bool = line is not None and all(settings.get(name) is None for name in _FETCHING)
        sdk = {name: settings.get(name) for name in ("sdk_version", "sdk_engine", "sdk_language")}
        self._sdk: Final = {name: value for name, value in sdk.items() if value is not None}
        self._headers: Final[Mapping[str, str]] = {
            "Content-Type": _JSON,
            **build_auth_headers(api_key, **self._sdk),
        }

    def ask(
        self, event: EventEnvelope, stamp: str, seconds: float, redact_keys: Collection[str]
    ) -> Awaitable[Answered]:
        """
        Put `event` to Core. Only for a client that `asks`.

        Args:
            stamp: The time of the event: its own, if it has one.
            seconds: Time for the answer.
            redact_keys: Names of what openbox_core takes out of it.

        Returns:
            What is to be awaited at once; it raises what the line does, and a `TimeoutError`.

        Raises:
            ContractError: It is not an event that openbox_core would send.
            RecursionError: It is nested too deeply to be written.
        """
        line = self.line
        assert line is not None
        validate_lifecycle(event)
        payload = event.to_payload_dict()
        payload["timestamp"] = stamp
        if redact_keys:
            payload, _ = apply_redaction(payload, frozenset(redact_keys))
        if self._identity is None:
            path, sent = EVALUATE_PATH, self._headers
            try:
                body = _ENCODER.encode(payload)
            except (TypeError, ValueError):
                # An id that holds half a character. openbox_core writes that as an escape.
                body = serialize_body(to_json_safe(payload, exclude_none=False))
        else:
            path, sent, body = self._signed(self._identity, payload)
        answered = line.carry("POST", path, sent, body)
        return _within(seconds, answered) if self._waits else answered

    def check_signature(self, status: int, headers: Mapping[str, str] | None, body: bytes) -> None:
        """
        Read what Core says of a request, if it was signed.

        Raises:
            OpenBoxAuthError: Core rejected the signature.
        """
        if status in (401, 403) and self._identity is not None:
            raise self._classify_auth_failure(WireAnswer(status, headers or {}, body), signed=True)

    def _signed(
        self, identity: AgentIdentity | OktaAgentIdentity, payload: dict[str, Any]
    ) -> tuple[str, Mapping[str, str], bytes]:
        """Give path, headers and body of a request that openbox_core signs, and writes for that."""
        if isinstance(identity, AgentIdentity):
            path = EVALUATE_PATH
            headers, body = prepare_signed_request(
                "POST", path, payload, api_key=self._api_key, identity=identity, **self._sdk
            )
        else:
            path = EVALUATE_PATH_V2
            headers, body = prepare_okta_signed_request(
                "POST", path, payload, api_key=self._api_key, identity=identity, **self._sdk
            )
        return path, {"Content-Type": _JSON, **headers}, body

    async def aclose(self) -> None:
        """Close the connections of the running loop, and ask the other running loops to close theirs."""
        await super().aclose()
        if self.line is not None:
            await self.line.aclose()

    # NB: a name of openbox_core that is not public. Should it change, requests take the transport again.
    def _async(self) -> Any:
        exchange = current_exchange()
        if exchange is None or self.line is None:
            return super()._async()
        return _Poster(self.line, exchange, self._api_url, self._timeout, super()._async)


class _Poster:
    """The object that openbox_core posts through, for one question."""

    __slots__ = ("_base", "_elsewhere", "_exchange", "_line", "_seconds")

    def __init__(
        self, line: Line, exchange: Exchange, base: str, seconds: float, elsewhere: Callable[[], Any]
    ) -> None:
        self._line = line
        self._exchange = exchange
        self._base = base
        self._seconds = seconds
        self._elsewhere = elsewhere

    async def post(self, url: str, *, content: bytes, headers: Mapping[str, str]) -> Any:
        """Make one request with a body."""
        if not url.startswith(f"{self._base}/"):
            # Not Core's, such as the address of tokens.
            return await self._elsewhere().post(url, content=content, headers=headers)
        return await self._ask("POST", url, {"Content-Type": _JSON, **headers}, content)

    async def get(self, url: str, *, headers: Mapping[str, str]) -> Any:
        """Make one request without a body."""
        if not url.startswith(f"{self._base}/"):
            return await self._elsewhere().get(url, headers=headers)
        return await self._ask("GET", url, headers, b"")

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> WireAnswer:
        exchange, path = self._exchange, url.removeprefix(self._base)
        exchange.begin(path)
        try:
            async with asyncio.timeout(self._seconds if self._line.waits else None):
                status, answered, content = await self._line.carry(method, path, headers, body)
        except Exception as error:
            exchange.error = error
            raise
        exchange.status, exchange.body = status, content
        exchange.retry_after = named(answered, "retry-after")
        return WireAnswer(status, answered, content)


async def _within(seconds: float, answered: Awaitable[Answered]) -> Answered:
    async with asyncio.timeout(seconds):
        return await answered


def named(headers: Mapping[str, str], wanted: str) -> str | None:
    """Find a header by its name in lower case."""
    return next((value for name, value in headers.items() if name.lower() == wanted), None)


_ENCODER: Final = msgspec.json.Encoder()
