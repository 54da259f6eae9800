"""A connection to one Core: client, runtime, gate, adapter and hooks, wired once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from openbox_core.runtime import OpenBoxRuntime

from .._breaker import Breaker
from .._plain.times import utc_now
from .gate import CoreGate
from .hooks.adapter import HookAdapter, HookRecorder
from .hooks.context_store import BoundedContextStore
from .hooks.ownership import HookOwnership
from .hooks.payloads import quiet_payload_builder
from .hooks.whole_requests import WholeRequestGate
from .transport.direct import DirectClient, LocalLine
from .transport.exchange import recording
from .transport.http import HttpLine, http_line
from .transport.wire import CoreTransport, LocalCoreTransport

if TYPE_CHECKING:
    from openbox_core.config import OpenBoxConfig
    from openbox_core.context import ContextStore

    from .._options.in_process import InProcessCore
    from ..options import GovernanceOptions


SETTLE_SECONDS = 10.0
"""How long closing may take to tell Core what it does not know yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Connection:
    """
    Hold what a governance asks Core through.

    Attributes:
        injected: Whether the runtime came from elsewhere.
    """

    runtime: OpenBoxRuntime
    gate: CoreGate
    hooks: HookOwnership
    injected: bool

    @property
    def store(self) -> ContextStore:
        """Store in which the activity is bound that nested I/O belongs to."""
        return self.runtime.context_store

    async def validate(self) -> None:
        """
        Check the API key.

        Raises:
            OpenBoxAuthError: Core rejected it.
            OpenBoxNetworkError: Core could not be reached.
        """
        with recording():
            await self.runtime.client.avalidate_api_key()

    async def aclose(self) -> None:
        """
        Remove the hooks, if they are ours, tell Core what it does not know yet, and close the runtime with
        its connections.
        """
        self.hooks.uninstall()
        try:
            await self.gate.settle(seconds=SETTLE_SECONDS)
        finally:
            await self.runtime.aclose()


def connect(
    options: GovernanceOptions,
    recorder: HookRecorder,
    *,
    core: InProcessCore | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    now: Callable[[], datetime] = utc_now,
) -> Connection:
    """
    Wire a connection as the options say. Nothing is sent and nothing is installed yet.

    Args:
        recorder: Told of every refusal of nested I/O.
        core: The in-process Core that ``options.core`` names, when it is not one itself.

    Raises:
        OpenBoxConfigError: The identity options do not fit together, or a key cannot be read.
    """
    if core is None and options.core is not None:
        if options.core == "local":
            raise ValueError("the local core has to be built before it is connected to")
        core = NoCore() if options.core == "off" else options.core
    breaker = Breaker(clock=clock)
    runtime = options.runtime
    if runtime is None:
        config = options.to_config()
        store = BoundedContextStore()
        adapter = HookAdapter(store, recorder)
        client = _client(options, config, core, breaker)
        build = quiet_payload_builder(config.privacy, max_bytes=options.max_payload_bytes)
        runtime = OpenBoxRuntime(config, adapter, client=client, context_store=store)
        runtime.gate = WholeRequestGate(client, config, payload_builder=build)
        gate = CoreGate(runtime, options, breaker=breaker, clock=clock, sleep=sleep, now=now)
        adapter.use(gate)
    else:
        gate = CoreGate(runtime, options, breaker=breaker, clock=clock, sleep=sleep, now=now)
    hooks = HookOwnership(runtime, strict=options.instrumentation_strict)
    return Connection(runtime=runtime, gate=gate, hooks=hooks, injected=options.runtime is not None)


def _client(
    options: GovernanceOptions, config: OpenBoxConfig, core: InProcessCore | None, breaker: Breaker
) -> DirectClient:
    line: HttpLine | LocalLine | None
    transport: CoreTransport | LocalCoreTransport
    if core is None:
        line = http_line(config.api_url)
        transport = CoreTransport(
            breaker=breaker,
            line=line,
            on_unknown=options.on_unknown_verdict,
            fail_closed=options.on_api_error == "fail_closed",
            total_seconds=max(options.timeout_seconds, options.gate_budget),
        )
    else:
        line = LocalLine(core)
        transport = LocalCoreTransport(
            core,
            breaker=breaker,
            on_unknown=options.on_unknown_verdict,
            fail_closed=options.on_api_error == "fail_closed",
        )
    return DirectClient(
        line,
        config.api_url,
        config.api_key,
        timeout_seconds=config.timeout_seconds,
        on_api_error=config.on_api_error,
        identity=config.load_okta_identity() or config.load_identity(),
        okta_bootstrap_private_key=config.okta_bootstrap_private_key(),
        workload_private_key=config.keycloak_workload_private_key(),
        sdk_version=config.sdk_version,
        sdk_engine=config.sdk_engine,
        sdk_language=config.sdk_language,
        transport=transport,
        async_transport=transport,
    )


class NoCore:
    """Stand where no Core is. Who asked it all the same would be told of an outage, and no ALLOW."""

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Answer that there is no Core."""
        return 503, {}, b""
