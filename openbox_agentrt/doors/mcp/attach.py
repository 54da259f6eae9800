"""Put the gate into a server, and end its clients' sessions when the server stops serving them."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from .middleware import ACELMiddleware

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer


def attach(server: "MCPServer[Any] | Server[Any]", gate: ACELMiddleware) -> ACELMiddleware:
    """
    Make a gate the innermost middleware of a server, and end sessions with the server's lifespan.

    A server enters its lifespan once for each stream (stdio, in memory) and once for all of HTTP. When it
    leaves it, the clients that it served under it are gone, which the gate alone would notice only when the
    connection's memory is freed.

    Args:
        server: The server, before it runs.
        gate: The gate.

    Returns:
        The gate.
    """
    lowlevel: Any = getattr(server, "_lowlevel_server", server)
    inner, serving = lowlevel.lifespan, Counter[int]()

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        async with inner(app) as context:
            number = id(context)
            serving[number] += 1
            try:
                yield context
            finally:
                serving[number] -= 1
                if not serving[number]:
                    del serving[number]
                    await gate.aclose(only=lambda key: key.lifespan == number)

    lowlevel.lifespan = lifespan
    if gate not in lowlevel.middleware:
        lowlevel.middleware.append(gate)
    return gate
