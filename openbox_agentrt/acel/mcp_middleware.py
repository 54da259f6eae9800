"""
acel-core's name for the gate in an MCP server: `openbox_agentrt.doors.mcp.ACELMiddleware`.

Unlike acel-core's, it keys sessions by something that outlasts a request, and refuses where there is nothing
of the kind.
"""

from ..doors.mcp import ACELMiddleware

__all__ = ("ACELMiddleware",)
