"""
Tell who is calling, by a key that outlasts one request.

A contract such as ``at_most_n_times("pay", 1)`` counts within a session, so a session must not end with the
request. The protocol's current revision, and every stateless server, opens a new connection for each request;
keyed by connection, four of four calls run. What lasts is looked for in this order:

1. what a resolver of the server's own says;
2. the MCP session id (``Mcp-Session-Id``, streamable HTTP after a handshake);
3. the connection, where one carries all requests of a client (stdio, SSE, in memory);
4. the authenticated principal (client, issuer, subject of the access token).

Where there is none of these, there is no key, and the caller has to refuse.

NB: A session id and a connection last as long as the client wishes: one that reconnects starts anew. A limit
that has to hold per person needs `by_principal` or a resolver.
"""

import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...acel.callbacks import discard

KeyKind = Literal["resolver", "session", "connection", "principal"]
KeyResolver = Callable[[Any], Hashable | None]
"""Takes the SDK's request context; returns what tells this client from every other, `None` if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKey:
    """
    Tell one client from another.

    Attributes:
        kind: Where the key comes from.
        value: The key; compared together with `kind`.
        anchor: Object that lives exactly as long as the client stays, where there is one.
        connection: The SDK's connection, where it is torn down when the client goes.
        lifespan: Identity of what the server's lifespan gave, under which the client is served.
    """

    kind: KeyKind
    value: Hashable
    anchor: object | None = field(default=None, compare=False, repr=False)
    connection: Any = field(default=None, compare=False, repr=False)
    lifespan: int = field(default=0, compare=False, repr=False)

    def bare(self) -> "ClientKey":
        """Give the key without what it was read off, so that keeping it keeps nothing else."""
        return replace(self, anchor=None, connection=None)


def find_key(ctx: Any, resolver: KeyResolver | None = None) -> ClientKey | None:
    """
    Find the key of the client behind a request.

    Args:
        ctx: The SDK's `ServerRequestContext`.
        resolver: The server's own way to tell clients apart. If given, nothing else is looked at.

    Returns:
        The key; `None` if nothing about this request outlasts it.
    """
    if resolver is None:
        found: ClientKey | Hashable | None = by_connection(ctx) or by_principal(ctx)
    else:
        found = resolver(ctx)
        if inspect.isawaitable(found):
            discard(found)
            raise TypeError("key must be a plain function, it returned something to await")
    if found is None:
        return None
    key = found if isinstance(found, ClientKey) else ClientKey(kind="resolver", value=found)
    return replace(key, lifespan=id(ctx.lifespan_context))


def by_connection(ctx: Any) -> ClientKey | None:
    """Key by MCP session id, or by the connection where one carries all requests of a client."""
    # The SDK has no public way from a request to its connection. If the attribute goes, there is no key, and
    # the caller refuses.
    connection = getattr(ctx.session, "_connection", None)
    if connection is None or not connection.has_standalone_channel:
        anchor = _in_process_client(ctx)
        return None if anchor is None else ClientKey(kind="connection", value=id(anchor), anchor=anchor)
    if connection.session_id is not None:
        return ClientKey(
            kind="session", value=connection.session_id, anchor=connection.outbound, connection=connection
        )
    if _is_rebuilt_per_request(connection):
        # The channel is the client's; the connection around it is this request's.
        return ClientKey(kind="connection", value=id(connection.outbound), anchor=connection.outbound)
    return ClientKey(
        kind="connection", value=id(connection.outbound), anchor=connection.outbound, connection=connection
    )


def by_principal(ctx: Any) -> ClientKey | None:
    """
    Key by the authenticated principal: client, issuer and subject of the access token.

    All connections of one principal share a session. Where the token verifier supplies no subject, that is
    every user of one OAuth client.
    """
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import principal_components

    token = get_access_token()
    return None if token is None else ClientKey(kind="principal", value=principal_components(token))


def _is_rebuilt_per_request(connection: Any) -> bool:
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return connection.protocol_version in MODERN_PROTOCOL_VERSIONS


def _in_process_client(ctx: Any) -> object | None:
    # A client in this process (`Client(server)`) has no stream: its requests share one transport description
    # and nothing else. Reached through private attributes, so without them there is no key and the caller
    # refuses.
    channel = getattr(ctx.session, "_request_outbound", None)
    transport = getattr(getattr(channel, "_inner", channel), "transport", None)
    return transport if getattr(transport, "kind", None) == "direct" else None
