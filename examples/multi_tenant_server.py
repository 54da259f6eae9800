"""
An MCP server for several clients at once: each has a session of its own, and none sees another's.

Over streamable HTTP, the MCP session id tells clients apart; over standard input and output, the connection
does:

    python examples/multi_tenant_server.py
"""

from typing import Any, Literal

from mcp.server.mcpserver import MCPServer

from openbox_agentrt.acel import Session, must_precede
from openbox_agentrt.acel.mcp_middleware import ACELMiddleware

Mode = Literal["enforce", "shadow"]


def build_session(mode: Mode = "enforce") -> Session:
    """The session of one client."""
    session = Session(state={"authenticated": False}, mode=mode)
    session.add_contract(must_precede("authenticate", "read_user_data"))
    session.register_tool(
        "authenticate",
        commit=lambda state, args, result: state.set("authenticated", result.get("ok") is True),
    )
    session.register_tool("read_user_data", precondition=lambda state: state.get("authenticated") is True)
    return session


def build_server(mode: Mode = "enforce") -> tuple[MCPServer[Any], ACELMiddleware]:
    """The server, and the gate that holds its clients' sessions."""
    gate = ACELMiddleware(session_factory=lambda: build_session(mode))
    server: MCPServer[Any] = MCPServer("acel-multi-tenant-server", middleware=[gate])

    @server.tool()
    def authenticate(user: str) -> dict[str, Any]:
        """Log a user in."""
        return {"ok": True, "user": user}

    @server.tool()
    def read_user_data(query: str) -> dict[str, Any]:
        """Read the data of the user who is logged in."""
        return {"rows": [{"query": query, "value": 42}]}

    return server, gate


if __name__ == "__main__":
    build_server()[0].run("streamable-http", host="127.0.0.1", port=8000)
