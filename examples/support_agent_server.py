"""
A customer-support MCP server, for trying contracts on a real agent: tickets, verification, refunds.

`docs/TESTING_WITH_REAL_AGENTS.md` says how to connect it to Claude Desktop or Claude Code, and which prompts
make an agent run into each contract:

    openbox-agentrt serve examples/support_agent_server.py
"""

from typing import Any, Literal

from mcp.server.mcpserver import MCPServer

from openbox_agentrt.acel import (
    Check,
    Session,
    StateStore,
    at_most_total,
    cannot_follow_without,
    must_precede,
)
from openbox_agentrt.acel.mcp_middleware import ACELMiddleware

Mode = Literal["enforce", "shadow"]
REFUND_CAP = 500


def _close(state: StateStore, args: dict[str, Any], result: Any) -> None:
    state.set("closed_tickets", [*state.get("closed_tickets"), args["ticket_id"]])


def build_session(mode: Mode = "enforce") -> Session:
    """The session: refunds need a verified customer, an open ticket, and money left under the cap."""
    session = Session(state={"closed_tickets": []}, mode=mode)
    session.add_contract_group(
        "refund_policy",
        [
            # By ticket: who verified one customer may not refund another.
            must_precede("verify_customer", "issue_refund", key="ticket_id"),
            at_most_total("issue_refund", "amount", limit=REFUND_CAP),
        ],
    )
    session.add_contract(cannot_follow_without("close_ticket", "open_ticket"))
    session.register_tool(
        "issue_refund",
        precondition=Check(
            lambda state, args: args.get("ticket_id") not in state.get("closed_tickets"),
            "the ticket of a refund is still open",
        ),
    )
    session.register_tool("close_ticket", commit=_close)
    return session


def build_server(mode: Mode = "enforce") -> tuple[MCPServer[Any], Session]:
    """The server, gated, and its session."""
    session = build_session(mode)
    server: MCPServer[Any] = MCPServer("acel-support-agent-server", middleware=[ACELMiddleware(session)])

    @server.tool()
    def open_ticket(customer_id: str) -> dict[str, Any]:
        """Open a support ticket for a customer."""
        return {"ticket_id": f"T-{customer_id}", "status": "open"}

    @server.tool()
    def verify_customer(ticket_id: str) -> dict[str, Any]:
        """Verify the identity of the customer of a ticket."""
        return {"ticket_id": ticket_id, "verified": True}

    @server.tool()
    def issue_refund(ticket_id: str, amount: float) -> dict[str, Any]:
        """Refund an amount, in dollars, to the customer of a ticket."""
        return {"ticket_id": ticket_id, "refunded": amount}

    @server.tool()
    def close_ticket(ticket_id: str) -> dict[str, Any]:
        """Close a ticket."""
        return {"ticket_id": ticket_id, "status": "closed"}

    @server.tool()
    def escalate_to_human(ticket_id: str, reason: str) -> dict[str, Any]:
        """Hand a ticket over to a human."""
        return {"ticket_id": ticket_id, "escalated": True, "reason": reason}

    return server, session


if __name__ == "__main__":
    build_server()[0].run("stdio")
