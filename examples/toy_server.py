"""
A toy MCP server with five tools under three contracts.

Run it under contract, over standard input and output:

    openbox-agentrt serve examples/toy_server.py

`build_server` returns the server and the session that its calls are judged in; ``serve`` needs nothing else.
"""

from typing import Any, Literal

from mcp.server.mcpserver import MCPServer

from openbox_agentrt.acel import Session, at_most_n_times, must_precede
from openbox_agentrt.acel.mcp_middleware import ACELMiddleware
from openbox_agentrt.evidence import EvidenceFile

Mode = Literal["enforce", "shadow"]


def build_session(mode: Mode = "enforce", evidence: EvidenceFile | None = None) -> Session:
    """The session: what is known at its start, and the contracts over its calls."""
    session = Session(state={"authenticated": False}, mode=mode, evidence=evidence)
    session.add_contract(must_precede("validate_record", "delete_record"))
    session.add_contract(at_most_n_times("send_payment", n=1))
    session.register_tool(
        "authenticate",
        commit=lambda state, args, result: state.set("authenticated", result.get("ok") is True),
    )
    session.register_tool("read_user_data", precondition=lambda state: state.get("authenticated") is True)
    return session


def build_server(
    mode: Mode = "enforce", evidence: EvidenceFile | None = None
) -> tuple[MCPServer[Any], Session]:
    """The server, gated, and its session. `evidence` is the log of ``serve --record steps``."""
    session = build_session(mode, evidence)
    server: MCPServer[Any] = MCPServer("acel-toy-server", middleware=[ACELMiddleware(session)])

    @server.tool()
    def authenticate(user: str) -> dict[str, Any]:
        """Log a user in."""
        return {"ok": True, "user": user}

    @server.tool()
    def read_user_data(query: str) -> dict[str, Any]:
        """Read the data of the user who is logged in."""
        return {"rows": [{"query": query, "value": 42}]}

    @server.tool()
    def validate_record(record_id: str) -> dict[str, Any]:
        """Check that a record may be deleted."""
        return {"valid": True, "record_id": record_id}

    @server.tool()
    def delete_record(record_id: str) -> dict[str, Any]:
        """Delete a record."""
        return {"deleted": True, "record_id": record_id}

    @server.tool()
    def send_payment(amount: float) -> dict[str, Any]:
        """Send a payment."""
        return {"sent": True, "amount": amount}

    return server, session


if __name__ == "__main__":
    build_server()[0].run("stdio")
